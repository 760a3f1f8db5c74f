#include "scheduling/step_cost.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace paceline::scheduling {
namespace {

constexpr double memory = 32;             // steps of one size
constexpr double slope_memory = 256;      // steps
constexpr double nearly_as_good = 1.1;    // time per row over the best there is
constexpr std::size_t errors_between = 8; // the median is taken anew

} // namespace

std::size_t StepCost::bin_of(int rows) {
  return std::min(std::size_t(std::bit_width(unsigned(std::max(rows, 1)))), bins - 1);
}

void StepCost::observe(int rows, double context, base::Duration took) {
  Bin& bin = bins_[bin_of(rows)];
  double seconds = base::seconds(took);
  if (observed_ > 0 && seconds > 0)
    note_error(std::abs(this->seconds(rows, context) - seconds) / seconds);
  ++observed_;
  seconds = speculation::unless_stalled(seconds, bin.seconds.value);
  if (bin.rows.weight > 0) {
    const double more = context - bin.context.value;
    context_variance_.add(more * more, 1, slope_memory);
    context_covariance_.add(more * (seconds - bin.seconds.value), 1, slope_memory);
  }
  bin.rows.add(rows, 1, memory);
  bin.context.add(context, 1, memory);
  bin.seconds.add(seconds, 1, memory);
}

void StepCost::note_error(double error) {
  errors_[observed_ % errors_.size()] = error;
  const std::size_t known = std::min(observed_, errors_.size());
  if (observed_ % errors_between != 0 || known < errors_.size())
    return;
  std::array<double, std::tuple_size_v<decltype(errors_)>> sorted = errors_;
  const auto middle = sorted.begin() + sorted.size() / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  median_error_ = *middle;
}

double StepCost::per_context_token() const {
  if (context_variance_.value < 1)
    return 0;
  return std::max(0.0, context_covariance_.value / context_variance_.value);
}

/// On the line between the nearest sizes that were observed. Below all of them a step costs what
/// the smallest did; above them time grows in proportion.
StepCost::Point StepCost::at(double rows) const {
  const Bin* below = nullptr;
  const Bin* above = nullptr;
  for (const Bin& bin : bins_) {
    if (bin.rows.weight == 0)
      continue;
    if (bin.rows.value <= rows)
      below = &bin;
    else if (!above)
      above = &bin;
  }
  if (!below)
    return {above->context.value, above->seconds.value};
  if (!above)
    return {below->context.value, below->seconds.value * rows / below->rows.value};
  const double share = (rows - below->rows.value) / (above->rows.value - below->rows.value);
  return {std::lerp(below->context.value, above->context.value, share),
          std::lerp(below->seconds.value, above->seconds.value, share)};
}

double StepCost::seconds(int rows, double context) const {
  const Point known = at(rows);
  const double more = per_context_token() * (context - known.context);
  return std::max(known.seconds + more, known.seconds / 2);
}

std::optional<base::Duration> StepCost::predict(int rows, double context) const {
  if (observed_ == 0)
    return std::nullopt;
  return base::from_seconds(seconds(rows, context));
}

std::optional<base::Duration> StepCost::predict_boldly(int rows, double context) const {
  int most = rows;
  for (const Bin& bin : bins_)
    if (bin.rows.weight > 0)
      most = int(std::ceil(bin.rows.value));
  return predict(rows <= 2 * most ? std::min(rows, most) : rows, context);
}

base::Duration StepCost::timeout(int rows, double context, base::Duration least) const {
  const auto expected = predict(rows, context);
  return std::max<base::Duration>(least, expected ? *expected * limits::stall_steps
                                                  : limits::first_step_timeout);
}

int StepCost::rows_within(base::Duration limit, double context, int most) const {
  if (observed_ == 0)
    return most;
  int rows = most;
  while (rows > 1 && seconds(rows, context) > base::seconds(limit))
    rows = std::min(rows - 1, rows * 31 / 32);
  return std::max(rows, 1);
}

int StepCost::knee(double context, int most) const {
  const double best = observed_ > 0 ? seconds(most, context) / most : 0;
  if (best <= 0)
    return most;
  int rows = most;
  for (int fewer = most; fewer > limits::row_tile; fewer -= limits::row_tile)
    if (seconds(fewer, context) / fewer <= nearly_as_good * best)
      rows = fewer;
    else
      break;
  return rows;
}

} // namespace paceline::scheduling
