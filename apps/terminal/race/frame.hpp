// A race as a picture of text.
#pragma once

#include "apps/terminal/race/recording.hpp"

#include <string>
#include <vector>

namespace paceline::apps {

struct RaceScene {
  std::vector<RaceLane> lanes;
  int tokens_wanted = 0; ///< Tokens of the longest lane at its end, for the bars.
  std::string how;       ///< How they ran: one after another, or at once.
  std::string result;    ///< Empty before the end.
};

/// Narrower windows get plain lines.
inline constexpr int race_columns_min = 60;

/// Returns at most `rows` lines of at most `columns`: heading, rate, bar and the text's last lines
/// of each lane side by side, then a line on how they ran. columns: race_columns_min or more.
std::vector<std::string> race_frame(const RaceScene& scene, int columns, int rows);

/// Returns a lane as one line, for pipes and narrow windows.
std::string race_line(const RaceLane& lane);

} // namespace paceline::apps
