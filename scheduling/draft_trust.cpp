#include "scheduling/draft_trust.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>

namespace paceline::scheduling {

void DraftBackOff::late(base::TimePoint now) {
  pause_ = std::clamp<base::Duration>(pause_ * 2, limits::draft_back_off_min,
                                      limits::draft_back_off_max);
  until_ = now + pause_;
}

void DraftBackOff::cost(base::TimePoint since, base::TimePoint now) {
  const base::Duration held_up = now - since;
  const bool again = counted_ && now < idle_until_ + limits::draft_idle_factor_max * held_up;
  if (!again)
    idle_factor_ = 1;
  else if (since >= *counted_)
    idle_factor_ = std::min(2 * idle_factor_, limits::draft_idle_factor_max);
  counted_ = now;
  idle_until_ = std::max(idle_until_, now + idle_factor_ * held_up);
}

bool DraftWatch::stands_still(bool owes, bool has_written, base::Duration step,
                              base::TimePoint now) {
  if (least_ <= base::Duration::zero())
    return false;
  if (has_written)
    begin_anew();
  if (owes_since_)
    silent_ += now - *owes_since_;
  owes_since_ = owes ? std::optional(now) : std::nullopt;
  if (silent_ < std::max<base::Duration>(least_, step * limits::stall_steps))
    return false;
  begin_anew();
  return true;
}

} // namespace paceline::scheduling
