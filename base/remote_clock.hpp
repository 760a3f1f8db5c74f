// How far another machine's clock is from this one's, estimated by questions and answers.
#pragma once

#include "base/clock.hpp"

#include <array>
#include <cstddef>
#include <optional>

namespace paceline::base {

/// Estimates the difference as NTP does (RFC 5905, sections 8 and 10). The other clock was read
/// between question and answer, so the middle of these is right to half of the time between them.
/// The least uncertain of the last answers counts. Threads: one at a time.
class RemoteClock {
public:
  struct Estimate {
    Duration ahead{};       ///< The other clock's time less this one's.
    Duration uncertainty{}; ///< Most that `ahead` may be wrong, either way.

    TimePoint here(TimePoint there) const { return there - ahead; }
  };

  /// asked, answered: times by this machine's clock. read: the other clock's time in between.
  void observe(TimePoint asked, TimePoint read, TimePoint answered);
  /// Returns the best estimate at `now`; it gets worse with time, for clocks drift apart. None:
  /// nothing was observed.
  std::optional<Estimate> estimate(TimePoint now) const;

private:
  struct Observation {
    TimePoint at;
    Estimate estimate;
  };
  std::array<Observation, 32> last_{};
  std::size_t count_ = 0;
};

} // namespace paceline::base
