// A race as a picture of text.
#pragma once

#include "apps/terminal/race/recording.hpp"

#include <string>
#include <vector>

namespace paceline::apps {

struct RaceScene {
  std::vector<RaceLane> lanes;
  int tokens_wanted = 0; ///< That the longest lane has at its end; for the bars.
  std::string how;       ///< One after another, or at once.
  std::string result;    ///< Empty before the end.
};

/// A window narrower than this gets plain lines.
inline constexpr int race_columns_min = 60;

/// Lines of at most `columns`, at most `rows` of them: heading, rate, bar and the text's last lines
/// of each lane side by side, then what the picture is of. columns: race_columns_min or more.
std::vector<std::string> race_frame(const RaceScene& scene, int columns, int rows);

/// A lane in a line, for pipes and narrow windows.
std::string race_line(const RaceLane& lane);

} // namespace paceline::apps
