#include "models/added_tokens.hpp"

#include <algorithm>

namespace paceline::models {

void AddedTokens::add(std::string content, TokenId id) {
  first_[static_cast<unsigned char>(content.at(0))] = true;
  entries_.push_back({std::move(content), id});
}

void AddedTokens::finish() {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.content < b.content; });
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, std::size_t from) const {
  if (entries_.empty())
    return {};
  for (std::size_t at = from; at < text.size(); ++at)
    if (first_[static_cast<unsigned char>(text[at])])
      if (auto match = longest_at(text, at))
        return match;
  return {};
}

/// Narrows the sorted entries by one more byte at a time; an entry that ends is a match.
std::optional<AddedTokens::Match> AddedTokens::longest_at(std::string_view text,
                                                          std::size_t begin) const {
  std::optional<Match> best;
  auto low = entries_.begin();
  auto high = entries_.end();
  for (std::size_t length = 0; low != high; ++length) {
    if (low->content.size() == length) {
      best = Match{begin, begin + length, low->id};
      ++low;
    }
    if (begin + length == text.size())
      break;
    const auto byte = static_cast<unsigned char>(text[begin + length]);
    const auto at = [length](const Entry& e) {
      return static_cast<unsigned char>(e.content[length]);
    };
    low = std::partition_point(low, high, [&](const Entry& e) { return at(e) < byte; });
    high = std::partition_point(low, high, [&](const Entry& e) { return at(e) == byte; });
  }
  return best;
}

} // namespace paceline::models
