// How tokens read as text.
#pragma once

#include "paceline/error.hpp"
#include "text/tokenizer/part.hpp"
#include "text/tokenizer/pattern.hpp"

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace paceline::text {

/// Decodes each token by itself, so that a text can be shown as it is made; only where a text
/// begins is there more to know. Immutable. Threads: all const members from any.
class Decoder {
public:
  /// "decoder" of tokenizer.json. path: for messages.
  static Result<Decoder> read(const std::string& path, const boost::json::value* part);

  /// The bytes of a token, maybe part of a character. first: of the text.
  std::string bytes(std::string_view piece, bool first = false) const;

  /// Where a text begins, up to `count` times this character is left out.
  struct Strip {
    std::string character;
    int count = 0;
  };
  const Strip& strip() const { return strip_; }

private:
  struct ByteLevel {};
  struct ByteFallback {};
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  struct Metaspace {
    std::string replacement;
    bool prepended; ///< The first token loses its marks: encoding added one.
  };
  using Step = std::variant<ByteLevel, ByteFallback, Replace, Metaspace>;

  Result<void> read_step(Part& part);
  Result<void> read_strip(Part& part);

  static std::string run(ByteLevel, const std::string& piece, bool first);
  static std::string run(ByteFallback, std::string piece, bool first);
  static std::string run(const Replace& replace, std::string piece, bool first);
  static std::string run(const Metaspace& metaspace, std::string piece, bool first);

  std::vector<Step> steps_;
  Strip strip_;
  bool fused_ = false;        ///< Fuse was seen: what follows is about the whole text.
  bool may_be_bytes_ = false; ///< A token may be part of a character: no step can look at it.
};

} // namespace paceline::text
