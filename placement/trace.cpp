// Reads traces that name our models, and tells layouts apart.
#include "placement/trace.hpp"

#include "placement/limits.hpp"
#include "placement/trace_lines.hpp"

#include <cmath>
#include <fmt/format.h>
#include <map>

namespace paceline::placement {
namespace {

class TraceReader {
public:
  explicit TraceReader(std::span<const std::string> models) {
    for (std::size_t i = 0; i < models.size(); ++i)
      index_[models[i]] = int(i);
  }

  Result<Trace> read(std::string_view text) {
    TraceLines lines(text);
    while (const auto line = lines.next()) {
      if (line->empty() || (lines.number() == 1 && line->starts_with("seconds")))
        continue;
      if (auto taken = take(lines, *line); !taken)
        return tl::unexpected(taken.error());
    }
    if (arrivals_.empty())
      return fail(ErrorCode::corrupt, "it has no requests", "give lines of seconds,model");
    return begin_with_first(std::move(arrivals_));
  }

private:
  Result<void> take(const TraceLines& lines, std::string_view line) {
    const auto [time, name] = cut(line);
    const auto seconds = number(time);
    if (!seconds || time.size() == line.size() || *seconds < 0)
      return lines.complain("this is no request", "write seconds,model, such as 12.5,bert");
    const auto model = index_.find(name);
    if (model == index_.end())
      return lines.complain(fmt::format("there is no model {}", name),
                            "name one of the plan's models");
    if (!arrivals_.empty() && *seconds < arrivals_.back().seconds)
      return lines.complain("it is earlier than the line before", "sort the lines by seconds");
    if (arrivals_.size() == limits::arrivals_max)
      return lines.complain("there are too many requests", "cut the trace");
    arrivals_.push_back({*seconds, model->second});
    return {};
  }

  std::map<std::string, int, std::less<>> index_;
  std::vector<Arrival> arrivals_;
};

} // namespace

Trace begin_with_first(std::vector<Arrival> arrivals) {
  const double first = arrivals.front().seconds;
  for (Arrival& arrival : arrivals)
    arrival.seconds -= first;
  const double end = std::nextafter(arrivals.back().seconds, HUGE_VAL);
  return {end, std::move(arrivals), {}};
}

Result<Trace> read_trace(std::string_view text, std::span<const std::string> models) {
  const std::string_view heading = TraceLines(text).next().value_or("");
  if (heading.starts_with("HashOwner"))
    return read_azure_2019(text, int(models.size()));
  if (heading.starts_with("app,"))
    return read_azure_2021(text, int(models.size()));
  return TraceReader(models).read(text);
}

} // namespace paceline::placement
