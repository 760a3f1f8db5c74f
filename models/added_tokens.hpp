// Tokens that are matched in the text itself, before anything else looks at it.
#pragma once

#include "paceline/request.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// Finds the leftmost, longest of a set of strings. Threads: all const members from any.
class AddedTokens {
public:
  void add(std::string content, TokenId id);
  /// After the last `add`.
  void finish();

  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    TokenId id = 0;
  };
  std::optional<Match> find(std::string_view text, std::size_t from) const;

private:
  std::optional<Match> longest_at(std::string_view text, std::size_t begin) const;
  struct Entry {
    std::string content;
    TokenId id;
  };
  std::vector<Entry> entries_; ///< Sorted by content.
  std::array<bool, 256> first_{};
};

} // namespace paceline::models
