#include "scheduling/step_times.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>

namespace paceline::scheduling {
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

std::optional<base::Duration> StepTimes::timeout(int rows, bool prefill) const {
  if (least_ <= base::Duration::zero())
    return std::nullopt;
  const base::Duration measured = prefill ? prefill_row_ : step_;
  if (measured <= base::Duration::zero())
    return std::max<base::Duration>(least_, limits::first_step_timeout);
  const base::Duration expected = prefill ? std::max(step_, prefill_row_ * rows) : step_;
  return std::max<base::Duration>(least_, expected * limits::stall_steps);
}

} // namespace paceline::scheduling
