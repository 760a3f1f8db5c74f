#include "base/remote_clock.hpp"

#include <algorithm>

namespace paceline::base {
namespace {

/// Drift between the quartz clocks of two machines, each right to 50 millionths.
constexpr double drift = 100e-6;

} // namespace

void RemoteClock::observe(TimePoint asked, TimePoint read, TimePoint answered) {
  const Duration half = (answered - asked) / 2;
  last_[count_++ % last_.size()] = {answered, {read - (asked + half), half}};
}

std::optional<RemoteClock::Estimate> RemoteClock::estimate(TimePoint now) const {
  std::optional<Estimate> best;
  for (std::size_t i = 0; i < std::min(count_, last_.size()); ++i) {
    Estimate each = last_[i].estimate;
    each.uncertainty += from_seconds(seconds(now - last_[i].at) * drift);
    if (!best || each.uncertainty < best->uncertainty)
      best = each;
  }
  return best;
}

} // namespace paceline::base
