#include "apps/terminal/race/show.hpp"

#include "apps/console/output.hpp"
#include "apps/console/screen_text.hpp"

#include <algorithm>
#include <climits>
#include <cmath>

namespace paceline::apps {
namespace {

constexpr int frame_rows_max = 16; ///< Most rows of the frame that stays on the screen.

std::vector<std::string> lines(const std::vector<Recording>& lanes, double seconds, int columns) {
  std::vector<std::string> out;
  out.reserve(lanes.size());
  for (const Recording& lane : lanes)
    out.emplace_back(clipped(race_line(lane_at(lane, seconds)), columns));
  return out;
}

} // namespace

void RaceShow::draw(const std::vector<Recording>& lanes, double seconds) {
  const ScreenSize size = screen_size();
  if (screen_ && size.columns < race_columns_min)
    screen_->show(lines(lanes, seconds, size.columns));
  else if (screen_)
    screen_->show(race_frame(scene(lanes, seconds, ""), size.columns, size.rows));
}

void RaceShow::close(const std::vector<Recording>& lanes) {
  const bool drawn = screen_ != nullptr;
  screen_.reset();
  const ScreenSize size = screen_size();
  std::vector<std::string> all = lines(lanes, HUGE_VAL, INT_MAX);
  if (drawn && size.columns >= race_columns_min)
    all = race_frame(scene(lanes, HUGE_VAL, verdict(lanes)), size.columns,
                     std::min(size.rows - 1, frame_rows_max));
  else
    all.insert(all.end(), {how_, verdict(lanes)});
  for (const std::string& line : all)
    out_.write(line + "\n");
}

RaceScene RaceShow::scene(const std::vector<Recording>& lanes, double seconds,
                          std::string result) const {
  RaceScene scene{{}, tokens_, how_, std::move(result)};
  for (const Recording& lane : lanes)
    scene.lanes.push_back(lane_at(lane, seconds));
  return scene;
}

} // namespace paceline::apps
