// Windows in which a text longer than the context is scored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace paceline::apps {

/// Tokens [begin, end) are read at once, and those from `fresh` on are scored.
struct ScoreWindow {
  std::size_t begin = 0;
  std::size_t fresh = 1; ///< 1 at first, since nothing precedes a text's first token.
  std::size_t end = 0;
};

/// Returns windows that overlap by half, so that each token past the first one has at least half a
/// context before it; each token but the first is fresh once. context: at least 2.
inline std::vector<ScoreWindow> score_windows(std::size_t tokens, std::size_t context) {
  std::vector<ScoreWindow> windows;
  for (std::size_t fresh = 1; fresh < tokens;) {
    const std::size_t begin = fresh == 1 ? 0 : fresh - context / 2;
    const std::size_t end = std::min(tokens, begin + context);
    windows.push_back({begin, fresh, end});
    fresh = end;
  }
  return windows;
}

} // namespace paceline::apps
