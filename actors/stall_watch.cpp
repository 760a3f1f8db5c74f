#include "actors/stall_watch.hpp"

#include "actors/limits.hpp"

#include <algorithm>

namespace paceline::actors {
namespace {

void smooth(base::Duration& mean, base::Duration took) {
  mean = mean.count() ? mean + (took - mean) / 8 : took;
}

} // namespace

void StepTimes::observe(int rows, bool prefill, base::Duration took) {
  if (prefill)
    smooth(prefill_row_, took / std::max(1, rows));
  else
    smooth(step_, took);
}

std::optional<base::Duration> StepTimes::patience(int rows, bool prefill) const {
  if (least_ <= base::Duration::zero())
    return std::nullopt;
  const base::Duration measured = prefill ? prefill_row_ : step_;
  if (measured <= base::Duration::zero())
    return std::max<base::Duration>(least_, limits::first_step_patience);
  const base::Duration expected = prefill ? std::max(step_, prefill_row_ * rows) : step_;
  return std::max<base::Duration>(least_, expected * limits::stall_steps);
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

} // namespace paceline::actors
