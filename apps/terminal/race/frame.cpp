#include "apps/terminal/race/frame.hpp"

#include "apps/console/output.hpp"
#include "apps/console/screen_text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace paceline::apps {
namespace {

constexpr int heading_rows = 3;
constexpr const char* between = " \u2502 ";
constexpr int between_columns = 3;

std::string bar(int done, int wanted, int columns) {
  const int full = wanted > 0 ? std::clamp(columns * done / wanted, 0, columns) : 0;
  std::string out;
  for (int i = 0; i < columns; ++i)
    out += i < full ? "\u2501" : "\u2500";
  return out;
}

/// Returns one lane: heading, rate, bar, text.
std::vector<std::string> column(const RaceLane& lane, int wanted, int columns, int text_rows) {
  const std::string state = lane.finished ? fmt::format("{:.3g} s", lane.seconds)
                                          : counted(std::uint64_t(lane.tokens), "token");
  std::vector<std::string> lines{fitted(lane.name + ", " + state, columns),
                                 fitted(fmt::format("{:.0f} tokens/s", lane.rate), columns),
                                 bar(lane.finished ? wanted : lane.tokens, wanted, columns)};
  const auto text = wrapped(printable(lane.text), columns);
  const std::size_t rows = std::size_t(text_rows);
  const std::size_t first = text.size() > rows ? text.size() - rows : 0;
  for (std::size_t i = 0; i < rows; ++i)
    lines.push_back(fitted(first + i < text.size() ? text[first + i] : "", columns));
  return lines;
}

} // namespace

std::vector<std::string> race_frame(const RaceScene& scene, int columns, int rows) {
  std::vector<std::string> below;
  for (const std::string& note : {scene.how, scene.result})
    for (std::string& line : wrapped_words(note, columns))
      below.push_back(std::move(line));
  const int lanes = int(scene.lanes.size());
  const int each = (columns - between_columns * (lanes - 1)) / std::max(lanes, 1);
  const int text_rows = std::max(rows - heading_rows - 1 - int(below.size()), 0);
  std::vector<std::string> lines(std::size_t(heading_rows + text_rows));
  for (int i = 0; i < lanes; ++i) {
    const auto own = column(scene.lanes[std::size_t(i)], scene.tokens_wanted, each, text_rows);
    for (std::size_t row = 0; row < lines.size(); ++row)
      lines[row] += (i > 0 ? between : "") + own[row];
  }
  lines.emplace_back();
  lines.insert(lines.end(), below.begin(), below.end());
  lines.resize(std::min(lines.size(), std::size_t(std::max(rows, 1))));
  return lines;
}

std::string race_line(const RaceLane& lane) {
  const std::string took = lane.finished ? fmt::format("{:.3f} s", lane.seconds) : "...";
  return fmt::format("{:<12} {:>6} tokens {:>10} {:>8.1f} tokens/s", lane.name, lane.tokens, took,
                     lane.rate);
}

} // namespace paceline::apps
