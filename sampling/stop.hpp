// Where an output ends: token rules for the scheduler, text rules for the stream.
#pragma once

#include "paceline/request.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::sampling {

/// Of tokens about to be committed: how many are kept, and whether they end the sequence.
struct Cut {
  std::size_t keep = 0;
  bool end_of_text = false; ///< The last token kept is an end-of-text id.
  bool length = false;      ///< The token budget is used up (end of text takes precedence).
};

/// Keeps tokens up to and including the first end-of-text id, and at most `budget`: exactly where
/// decoding one token at a time would have ended.
Cut cut_at_end(std::span<const TokenId> tokens, std::span<const TokenId> end_of_text,
               std::size_t budget);

/// Finds the first of several stop strings in a text that arrives in pieces, and holds back what
/// may still become one, and no more. Bytes, not characters: pieces may be cut anywhere and the
/// result is the same. First is the one that is complete first as bytes arrive; of several that
/// the same byte completes, the longest. Empty stop strings are ignored.
class StopMatcher {
public:
  StopMatcher() = default;
  explicit StopMatcher(std::vector<std::string> stops);

  struct Step {
    std::string text;                ///< Safe to show now.
    std::optional<std::string> stop; ///< The stop string that was completed; text ends before it.
  };
  /// The next piece. may_stop: a stop string that is complete within it counts, else it is text.
  /// After a stop was found nothing more may be fed.
  Step feed(std::string_view piece, bool may_stop = true);
  /// The end of the text: what was held back.
  std::string finish();

private:
  /// Knuth, Morris and Pratt's matcher.
  struct Pattern {
    std::string text;
    std::vector<std::size_t> border; ///< [i]: longest proper border of text[0..i].
    std::size_t matched = 0;         ///< Longest prefix that the bytes so far end with.
    std::size_t advance(std::size_t length, char byte) const;
  };
  std::vector<Pattern> patterns_;
  std::string held_;
  bool stopped_ = false;
};

} // namespace paceline::sampling
