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
/// may still become one. Bytes, not characters: pieces may be cut anywhere.
class StopMatcher {
public:
  StopMatcher() = default;
  explicit StopMatcher(std::vector<std::string> stops);

  struct Step {
    std::string text;                ///< Safe to show now.
    std::optional<std::string> stop; ///< The stop string that was completed; text ends before it.
  };
  /// The next piece. After a stop was found nothing more may be fed.
  Step feed(std::string_view piece);
  /// The end of the text: what was held back.
  std::string finish();

private:
  std::vector<std::string> stops_;
  std::string held_;
};

} // namespace paceline::sampling
