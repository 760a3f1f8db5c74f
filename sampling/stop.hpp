// The end of an output: token rules for the scheduler, text rules for the stream.
#pragma once

#include "paceline/request.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::sampling {

/// How many of the tokens to be committed are kept, and whether they end the sequence.
struct Cut {
  std::size_t keep = 0;
  bool end_of_text = false; ///< The last token kept is an end-of-text id.
  bool length = false;      ///< The token budget is used up (end of text takes precedence).
};

/// Keeps tokens up to and including the first end-of-text id, and at most `budget`: the output ends
/// exactly where decoding one token at a time would have ended it.
Cut cut_at_end(std::span<const TokenId> tokens, std::span<const TokenId> end_of_text,
               std::size_t budget);

/// Finds the first of several stop strings in a text that arrives in pieces, and holds back only
/// what may still become a stop string. It works on bytes, so the result is the same wherever the
/// text is cut into pieces. The first stop string is the one that is complete first as bytes
/// arrive; if the same byte completes several, the longest. Empty stop strings are ignored.
class StopMatcher {
public:
  StopMatcher() = default;
  explicit StopMatcher(std::vector<std::string> stops);

  struct Step {
    std::string text;                ///< Safe to show now.
    std::optional<std::string> stop; ///< The stop string that was completed; text ends before it.
  };
  /// Takes the next piece. may_stop: a stop string that is completed in it counts; otherwise it is
  /// text. Nothing may be fed after a stop was found.
  Step feed(std::string_view piece, bool may_stop = true);
  /// Ends the text and returns what was held back.
  std::string finish();

private:
  /// The matcher of Knuth, Morris and Pratt for one stop string.
  struct Pattern {
    std::string text;
    std::vector<std::size_t> border; ///< [i]: length of the longest proper border of text[0..i].
    std::size_t matched = 0;         ///< Longest prefix that the bytes so far end with.
    std::size_t advance(std::size_t length, char byte) const;
  };
  std::vector<Pattern> patterns_;
  std::string held_;
  bool stopped_ = false;
};

} // namespace paceline::sampling
