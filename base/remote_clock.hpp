// How far another machine's clock is from this one's, by questions and answers.
#pragma once

#include "base/clock.hpp"

#include <array>
#include <cstddef>
#include <optional>

namespace paceline::base {

/// As NTP does it (RFC 5905, sections 8 and 10): the other clock was read at some time between
/// question and answer, so the middle of these is right to half of the time between them; of the
/// last answers the one counts that leaves least open, for it waited least. Threads: one at a time.
class RemoteClock {
public:
  struct Estimate {
    Duration ahead{};       ///< What the other clock shows less what this one does.
    Duration uncertainty{}; ///< It is right to so much, either way.

    TimePoint here(TimePoint there) const { return there - ahead; }
  };

  /// asked, answered: by this machine's clock. read: by the other one's, in between.
  void observe(TimePoint asked, TimePoint read, TimePoint answered);
  /// At `now`, since clocks drift apart. None: nothing was observed.
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
