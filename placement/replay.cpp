// Replays traces, as they are or scaled.
#include "placement/limits.hpp"
#include "placement/trace.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace paceline::placement {
namespace {

/// A model's CV in a window is not estimated from fewer gaps.
constexpr std::size_t gaps_min = 2;
constexpr double cv_min = 0.05;
constexpr double cv_max = 100;

/// What is known of a model's gaps in a window.
struct Gaps {
  std::size_t count = 0;
  double sum = 0;
  double squares = 0;
  double last = -1;

  void add(double seconds) {
    if (last >= 0) {
      const double gap = seconds - last;
      ++count;
      sum += gap;
      squares += gap * gap;
    }
    last = seconds;
  }
  double cv() const {
    if (count < gaps_min || sum <= 0)
      return 1;
    const double mean = sum / double(count);
    return std::sqrt(std::max(0.0, squares / double(count) - mean * mean)) / mean;
  }
};

std::size_t models_of(const Trace& trace) {
  std::size_t models = trace.minutes.size();
  for (const Arrival& arrival : trace.arrivals)
    models = std::max(models, std::size_t(arrival.model) + 1);
  return models;
}

class Windows {
public:
  Windows(const Trace& trace, const Replay& how)
      : how_(how), end_(std::min(how.to_seconds, trace.seconds)), models_(models_of(trace)) {
    const double span = std::max(0.0, end_ - how.from_seconds);
    const auto count = std::size_t(std::ceil(span / how.window_seconds));
    traffic_.assign(count, std::vector<Traffic>(models_, Traffic{0, how.cv_scale}));
    if (trace.minutes.empty())
      take_times(trace.arrivals);
    else
      take_minutes(trace.minutes);
  }

  double requests() const {
    double sum = 0;
    for (std::size_t w = 0; w < traffic_.size(); ++w)
      for (const Traffic& one : traffic_[w])
        sum += one.rate * length(w);
    return sum;
  }

  Workload draw(std::uint64_t seed) const {
    Workload all{std::max(0.0, end_ - how_.from_seconds), {}};
    for (std::size_t w = 0; w < traffic_.size(); ++w) {
      const Workload one = draw_workload(traffic_[w], length(w), seed + (std::uint64_t(w) << 32));
      for (const auto& [seconds, model] : one.arrivals)
        all.arrivals.push_back({double(w) * how_.window_seconds + seconds, model});
    }
    return all;
  }

private:
  double begin(std::size_t window) const {
    return how_.from_seconds + double(window) * how_.window_seconds;
  }
  /// Returns the seconds of a window; the last one may be shorter.
  double length(std::size_t window) const {
    return std::min(begin(window) + how_.window_seconds, end_) - begin(window);
  }

  void take_times(const std::vector<Arrival>& arrivals) {
    std::vector<std::vector<Gaps>> gaps(traffic_.size(), std::vector<Gaps>(models_));
    for (const auto& [seconds, model] : arrivals) {
      if (seconds < how_.from_seconds || seconds >= end_)
        continue;
      const std::size_t window = std::min(
          std::size_t((seconds - how_.from_seconds) / how_.window_seconds), traffic_.size() - 1);
      traffic_[window][std::size_t(model)].rate += how_.rate_scale / length(window);
      gaps[window][std::size_t(model)].add(seconds);
    }
    for (std::size_t w = 0; w < traffic_.size(); ++w)
      for (std::size_t m = 0; m < models_; ++m)
        traffic_[w][m].cv = std::clamp(gaps[w][m].cv() * how_.cv_scale, cv_min, cv_max);
  }

  /// Divides a minute's requests over the windows that it is in.
  void take_minutes(const std::vector<std::vector<std::size_t>>& minutes) {
    for (std::size_t w = 0; w < traffic_.size(); ++w) {
      const double window_end = begin(w) + length(w);
      for (auto minute = std::size_t(begin(w) / 60); 60.0 * double(minute) < window_end; ++minute) {
        const double from = std::max(begin(w), 60.0 * double(minute));
        const double share = (std::min(window_end, 60.0 * double(minute + 1)) - from) / 60;
        for (std::size_t m = 0; m < models_ && minute < minutes[m].size(); ++m)
          traffic_[w][m].rate += how_.rate_scale * share * double(minutes[m][minute]) / length(w);
      }
    }
  }

  const Replay& how_;
  double end_;
  std::size_t models_;
  std::vector<std::vector<Traffic>> traffic_; ///< By window, then by model.
};

/// Returns the requests of the part as they were recorded.
Workload recorded(const Trace& trace, const Replay& how) {
  const double end = std::min(how.to_seconds, trace.seconds);
  Workload part{std::max(0.0, end - how.from_seconds), {}};
  for (const auto& [seconds, model] : trace.arrivals)
    if (seconds >= how.from_seconds && seconds < end)
      part.arrivals.push_back({seconds - how.from_seconds, model});
  return part;
}

Result<Workload> scaled(const Trace& trace, const Replay& how, std::uint64_t seed) {
  const double span = std::min(how.to_seconds, trace.seconds) - how.from_seconds;
  const std::size_t models = models_of(trace);
  if (span / how.window_seconds * double(models) > double(limits::windows_max))
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{:.0f} windows of {} models are too many", span / how.window_seconds, models),
        "make window_seconds longer");
  const Windows windows(trace, how);
  if (const double requests = windows.requests(); requests > double(limits::arrivals_max))
    return fail(ErrorCode::invalid_argument, fmt::format("{:.0f} requests are too many", requests),
                fmt::format("make rate_scale smaller, or replay less: at most {} requests",
                            limits::arrivals_max));
  return windows.draw(seed);
}

} // namespace

Result<Workload> replay(const Trace& trace, const Replay& how, std::uint64_t seed) {
  const bool as_it_is = trace.minutes.empty() && how.rate_scale == 1 && how.cv_scale == 1;
  auto part = as_it_is ? Result<Workload>(recorded(trace, how)) : scaled(trace, how, seed);
  if (part && part->arrivals.empty())
    return fail(ErrorCode::invalid_argument, "the part that is replayed has no requests",
                "replay more of the trace, or with a larger rate_scale");
  return part;
}

} // namespace paceline::placement
