// Changes a text before it is cut into pieces.
#pragma once

#include "paceline/error.hpp"
#include "text/tokenizer/part.hpp"
#include "text/tokenizer/pattern.hpp"
#include "text/tokenizer/pieces.hpp"
#include "text/tokenizer/precompiled.hpp"
#include "text/tokenizer/unicode.hpp"

#include <boost/json/value.hpp>
#include <string>
#include <variant>
#include <vector>

namespace paceline::text {

/// The normaliser of a tokenizer. Immutable. Threads: `apply` from any.
class Normalizer {
public:
  /// Reads the "normalizer" of tokenizer.json. path: for messages. part: may be null.
  static Result<Normalizer> read(const std::string& path, const boost::json::value* part);

  void apply(Text& text) const;

private:
  struct LowerCase {};
  struct Strip {
    bool left;
    bool right;
  };
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  struct Prepend {
    std::string prefix;
  };
  using Step = std::variant<NormalForm, LowerCase, Strip, Replace, Prepend, Precompiled>;

  static Result<Step> read_step(Part& part);

  static void run(NormalForm form, Text& text);
  static void run(LowerCase, Text& text);
  static void run(const Strip& strip, Text& text);
  static void run(const Replace& replace, Text& text);
  static void run(const Prepend& prepend, Text& text);
  static void run(const Precompiled& precompiled, Text& text);

  std::vector<Step> steps_;
};

} // namespace paceline::text
