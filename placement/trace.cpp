// Reads traces of requests, which are text.
#include "placement/limits.hpp"
#include "placement/workload.hpp"

#include <algorithm>
#include <charconv>
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

  Result<Workload> read(std::string_view text) {
    while (!text.empty()) {
      ++line_;
      const std::size_t end = std::min(text.find('\n'), text.size());
      auto taken = take(text.substr(0, end));
      if (!taken)
        return tl::unexpected(taken.error());
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (workload_.arrivals.empty())
      return fail(ErrorCode::corrupt, "it has no requests", "give lines of seconds,model");
    begin_with_first();
    return std::move(workload_);
  }

private:
  Result<void> take(std::string_view line) {
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    if (line.empty() || (line_ == 1 && line.starts_with("seconds")))
      return {};
    const auto comma = line.find(',');
    double seconds = 0;
    const auto [end, error] =
        std::from_chars(line.data(), line.data() + std::min(comma, line.size()), seconds);
    if (comma == line.npos || error != std::errc() || end != line.data() + comma ||
        !std::isfinite(seconds) || seconds < 0)
      return complain("this is no request", "write seconds,model, such as 12.5,bert");
    return add(seconds, line.substr(comma + 1));
  }

  Result<void> add(double seconds, std::string_view name) {
    const auto model = index_.find(name);
    if (model == index_.end())
      return complain(fmt::format("there is no model {}", name), "name one of the plan's models");
    auto& arrivals = workload_.arrivals;
    if (!arrivals.empty() && seconds < arrivals.back().seconds)
      return complain("it is earlier than the line before", "sort the lines by seconds");
    if (arrivals.size() == limits::arrivals_max)
      return complain("there are too many requests", "cut the trace");
    arrivals.push_back({seconds, model->second});
    return {};
  }

  /// Makes the first request come at 0 seconds: recorded times often count from 1970.
  void begin_with_first() {
    auto& arrivals = workload_.arrivals;
    const double first = arrivals.front().seconds;
    for (Arrival& arrival : arrivals)
      arrival.seconds -= first;
    workload_.seconds = std::nextafter(arrivals.back().seconds, HUGE_VAL);
  }

  tl::unexpected<Error> complain(const std::string& what, const char* hint) const {
    return fail(ErrorCode::corrupt, fmt::format("line {}: {}", line_, what), hint);
  }

  std::map<std::string, int, std::less<>> index_;
  Workload workload_;
  int line_ = 0;
};

} // namespace

Result<Workload> read_trace(std::string_view text, std::span<const std::string> models) {
  return TraceReader(models).read(text);
}

} // namespace paceline::placement
