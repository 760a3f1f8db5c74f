#include "scheduling/draft_trust.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>

namespace paceline::scheduling {

void DraftBackOff::late(base::TimePoint now) {
  pause_ = std::clamp<base::Duration>(pause_ * 2, limits::draft_back_off_min,
                                      limits::draft_back_off_max);
  until_ = now + pause_;
}

void DraftBackOff::cost(base::Duration held_up, base::TimePoint now) {
  const bool again = now < idle_until_ + limits::draft_idle_factor_max * held_up;
  idle_factor_ = again ? std::min(2 * idle_factor_, limits::draft_idle_factor_max) : 1;
  idle_until_ = std::max(idle_until_, now + idle_factor_ * held_up);
}

bool DraftWatch::stands_still(bool owes, std::uint64_t written, base::Duration step,
                              base::TimePoint now) {
  if (!owes || written != written_ || least_ <= base::Duration::zero()) {
    written_ = written;
    silent_since_.reset();
    return false;
  }
  if (!silent_since_)
    silent_since_ = now;
  if (now - *silent_since_ < std::max<base::Duration>(least_, step * limits::stall_steps))
    return false;
  silent_since_.reset();
  return true;
}

} // namespace paceline::scheduling
