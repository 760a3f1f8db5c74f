#include "sampling/stop.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace paceline::sampling {

Cut cut_at_end(std::span<const TokenId> tokens, std::span<const TokenId> end_of_text,
               std::size_t budget) {
  const auto within = tokens.first(std::min(tokens.size(), budget));
  const auto end =
      std::find_first_of(within.begin(), within.end(), end_of_text.begin(), end_of_text.end());
  if (end != within.end())
    return {std::size_t(end - within.begin()) + 1, true, false};
  return {within.size(), false, within.size() == budget};
}

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  std::erase_if(stops, [](const std::string& s) { return s.empty(); });
  for (auto& stop : stops) {
    Pattern pattern{std::move(stop), {0}, 0};
    for (std::size_t i = 1; i < pattern.text.size(); ++i)
      pattern.border.push_back(pattern.advance(pattern.border.back(), pattern.text[i]));
    patterns_.push_back(std::move(pattern));
  }
}

std::size_t StopMatcher::Pattern::advance(std::size_t length, char byte) const {
  while (length > 0 && text[length] != byte)
    length = border[length - 1];
  return text[length] == byte ? length + 1 : 0;
}

StopMatcher::Step StopMatcher::feed(std::string_view piece, bool may_stop) {
  assert(!stopped_);
  for (char byte : piece) {
    held_.push_back(byte);
    const Pattern* found = nullptr;
    for (auto& pattern : patterns_) {
      pattern.matched = pattern.advance(pattern.matched, byte);
      if (pattern.matched < pattern.text.size())
        continue;
      if (!may_stop)
        pattern.matched = pattern.border.back();
      else if (!found || pattern.text.size() > found->text.size())
        found = &pattern;
    }
    if (found) {
      stopped_ = true;
      held_.resize(held_.size() - found->text.size());
      return {std::exchange(held_, {}), found->text};
    }
  }
  std::size_t keep = 0;
  for (const auto& pattern : patterns_)
    keep = std::max(keep, pattern.matched);
  Step step{held_.substr(0, held_.size() - keep), std::nullopt};
  held_.erase(0, step.text.size());
  return step;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

} // namespace paceline::sampling
