// Reads what Azure published of its functions, as it was published.
#include "placement/limits.hpp"
#include "placement/trace.hpp"
#include "placement/trace_lines.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace paceline::placement {
namespace {

constexpr std::string_view heading_2019 = "HashOwner,HashApp,HashFunction,Trigger";
constexpr std::string_view heading_2021 = "app,func,end_timestamp,duration";

/// Models of functions: the first function becomes the first model, and so on in turn.
class Turns {
public:
  explicit Turns(int models) : models_(models) {}
  int next() { return next_++ % models_; }

private:
  int models_;
  int next_ = 0;
};

/// Returns how many minutes a heading counts, from 1 on; none: it is another heading.
std::optional<std::size_t> minutes_of(std::string_view heading) {
  if (!heading.starts_with(heading_2019) || heading.size() == heading_2019.size())
    return std::nullopt;
  heading.remove_prefix(heading_2019.size() + 1);
  std::size_t minutes = 0;
  while (!heading.empty()) {
    const auto [field, rest] = cut(heading);
    if (number(field) != double(++minutes))
      return std::nullopt;
    heading = rest;
  }
  return minutes;
}

/// Returns the invocations in each minute; none: these are not as many whole numbers.
std::optional<std::vector<std::size_t>> counts_of(std::string_view line, std::size_t minutes) {
  for (int names = 0; names < 4; ++names)
    line = cut(line).second;
  std::vector<std::size_t> counts;
  while (!line.empty() && counts.size() <= minutes) {
    const auto [field, rest] = cut(line);
    const auto count = number(field);
    if (!count || *count < 0 || *count > double(limits::arrivals_max) ||
        *count != std::floor(*count))
      return std::nullopt;
    counts.push_back(std::size_t(*count));
    line = rest;
  }
  return counts.size() == minutes ? std::optional(std::move(counts)) : std::nullopt;
}

/// Returns when an invocation came; none: the line is no invocation.
std::optional<double> begin_of(std::string_view fields) {
  const auto [end, duration] = cut(fields);
  const auto ended = number(end);
  const auto took = number(duration);
  return ended && took && *took >= 0 ? std::optional(*ended - *took) : std::nullopt;
}

} // namespace

Result<Trace> read_azure_2019(std::string_view text, int models) {
  TraceLines lines(text);
  const auto minutes = minutes_of(lines.next().value_or(""));
  if (!minutes)
    return lines.complain("this is not the heading of Azure Functions 2019",
                          fmt::format("begin with {},1,2,... to the last minute", heading_2019));
  if (*minutes > limits::windows_max / std::size_t(models))
    return lines.complain(fmt::format("{} minutes of {} models are too many", *minutes, models),
                          "cut the trace");
  Trace trace{60.0 * double(*minutes), {}, {}};
  trace.minutes.assign(std::size_t(models), std::vector<std::size_t>(*minutes, 0));
  Turns turns(models);
  while (const auto line = lines.next()) {
    if (line->empty())
      continue;
    const auto counts = counts_of(*line, *minutes);
    if (!counts)
      return lines.complain("this is no function",
                            fmt::format("write four names and {} whole numbers", *minutes));
    if (std::ranges::all_of(*counts, [](std::size_t count) { return count == 0; }))
      continue;
    auto& sums = trace.minutes[std::size_t(turns.next())];
    std::ranges::transform(sums, *counts, sums.begin(), std::plus());
  }
  return trace;
}

Result<Trace> read_azure_2021(std::string_view text, int models) {
  TraceLines lines(text);
  if (lines.next() != heading_2021)
    return lines.complain("this is not the heading of Azure Functions 2021",
                          fmt::format("begin with {}", heading_2021));
  std::vector<Arrival> arrivals;
  std::unordered_map<std::string, int> functions; // Names are unique within an application only.
  Turns turns(models);
  while (const auto line = lines.next()) {
    if (line->empty())
      continue;
    const std::string_view behind_names = cut(cut(*line).second).second;
    const auto begin = begin_of(behind_names);
    if (!begin)
      return lines.complain("this is no invocation",
                            fmt::format("write {}, such as a1,f1,79.5,0.25", heading_2021));
    if (arrivals.size() == limits::arrivals_max)
      return lines.complain("there are too many invocations", "cut the trace");
    const auto [function, added] =
        functions.try_emplace(std::string(line->substr(0, line->size() - behind_names.size())), 0);
    if (added)
      function->second = turns.next();
    arrivals.push_back({*begin, function->second});
  }
  if (arrivals.empty())
    return fail(ErrorCode::corrupt, "it has no invocations", "give lines behind the heading");
  std::ranges::stable_sort(arrivals, {}, &Arrival::seconds);
  return begin_with_first(std::move(arrivals));
}

} // namespace paceline::placement
