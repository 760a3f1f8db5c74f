// Cuts a text into the pieces that the model encodes one by one.
#pragma once

#include "paceline/error.hpp"
#include "text/tokenizer/part.hpp"
#include "text/tokenizer/pattern.hpp"
#include "text/tokenizer/pieces.hpp"

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace paceline::text {

/// The pre-tokenizer of a tokenizer. Immutable. Threads: `apply` from any.
class PreTokenizer {
public:
  /// Reads the "pre_tokenizer" of tokenizer.json. path: for messages. part: may be null.
  static Result<PreTokenizer> read(const std::string& path, const boost::json::value* part);

  /// Cuts pieces.text. Reuses the memory of `pieces`.
  void apply(Pieces& pieces) const;

  /// Returns whether the model sees each byte as a character of its own (GPT-2's way).
  bool byte_level() const { return byte_level_; }

private:
  /// What becomes of the matches; the text between them does not match.
  enum class Behavior { removed, isolated, contiguous, merged_with_previous, merged_with_next };
  struct Split {
    Pattern pattern;
    Behavior behavior;
    bool invert = false; ///< The text between the pattern's matches counts as the matches.
  };
  /// ByteLevel's option add_prefix_space.
  struct PrefixSpace {};
  /// Blanks become `replacement`, and a piece begins with one.
  struct Metaspace {
    enum class Prepend { always, first, never };
    std::string replacement;
    Prepend prepend;
  };
  using Step = std::variant<Split, PrefixSpace, Metaspace>;

  Result<void> read_step(Part& part);
  Result<void> read_split(Part& part);
  Result<void> read_byte_level(Part& part);
  Result<void> read_metaspace(Part& part);

  static void run(const Split& split, Pieces& pieces);
  static void run(PrefixSpace, Pieces& pieces);
  static void run(const Metaspace& metaspace, Pieces& pieces);
  template <class Change>
  static void rewrite(Pieces& pieces, Change change);

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

} // namespace paceline::text
