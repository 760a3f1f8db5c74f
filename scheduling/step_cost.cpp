#include "scheduling/step_cost.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

namespace paceline::scheduling {
namespace {

constexpr double memory = 32;             // steps of one size
constexpr double slope_memory = 256;      // steps
constexpr double sharing_memory = 4;      // squared steps of the draft's time beside
constexpr double nearly_as_good = 1.1;    // time per row over the best there is
constexpr std::size_t errors_between = 8; // the median is taken anew

constexpr auto mean_rows = [](const auto& bin) { return bin.rows.value; };

} // namespace

/// Returns the size by the highest three bits of the rows before the last.
int StepCost::size_of(int rows) {
  const auto before = unsigned(std::max(rows, 1) - 1);
  const int doublings = std::max(int(std::bit_width(before)) - 3, 0);
  return 4 * doublings + int(before >> doublings);
}

StepCost::Bin& StepCost::bin_of(int rows) {
  const int size = size_of(rows);
  const auto at = std::ranges::lower_bound(bins_, size, {}, &Bin::size);
  return at != bins_.end() && at->size == size ? *at : *bins_.insert(at, Bin{size, {}, {}, {}, {}});
}

bool StepCost::knows(int rows) const {
  const auto above = std::ranges::upper_bound(bins_, rows, {}, mean_rows);
  return (above != bins_.end() && above->size == size_of(rows)) ||
         (above != bins_.begin() && rows <= 2 * std::prev(above)->rows.value);
}

void StepCost::observe(int rows, double context, base::Duration took, base::Duration beside) {
  double seconds = base::seconds(took);
  const double drafted = std::min(base::seconds(beside), seconds);
  const double expected = is_measured() ? alone(rows, context) + sharing() * drafted : 0;
  if (is_measured() && seconds > 0)
    note_error(std::abs(expected - seconds) / seconds);
  ++observed_;
  seconds = speculation::unless_stalled(seconds, expected);
  const double shared = std::min(drafted, seconds);
  Bin& bin = bin_of(rows);
  if (bin.rows.weight > 0) {
    const double more = context - bin.context.value;
    const double drafting = shared - bin.beside.value;
    const double longer = seconds - bin.seconds.value;
    context_variance_.add(more * more, 1, slope_memory);
    context_covariance_.add(more * (longer - sharing() * drafting), 1, slope_memory);
    if (drafting != 0 && bin.seconds.value > 0)
      sharing_.add(std::clamp((longer - per_context_token() * more) / drafting, -1.0, 2.0),
                   std::pow(drafting / alone(bin), 2), sharing_memory);
  }
  bin.rows.add(rows, 1, memory);
  bin.context.add(context, 1, memory);
  bin.seconds.add(seconds, 1, memory);
  bin.beside.add(shared, 1, memory);
  beside_.add(shared, 1, memory);
}

/// Returns the seconds of a size with nothing beside it, by what is known of sharing now.
double StepCost::alone(const Bin& bin) const {
  return bin.seconds.value - sharing() * bin.beside.value;
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

/// Returns the seconds of a size that was never observed.
double StepCost::unseen(const Bin& nearest, int rows) const {
  const double scale =
      prior_.is_known() ? prior_.seconds(rows) / prior_.seconds(nearest.rows.value) : 1;
  return alone(nearest) * scale;
}

double StepCost::below_all(int rows) const {
  const Bin& least = bins_.front();
  if (prior_.is_known() || bins_.size() == 1)
    return unseen(least, rows);
  const Bin& next = bins_[1];
  const double seconds = alone(least);
  const double slope = (alone(next) - seconds) / (next.rows.value - least.rows.value);
  return std::clamp(seconds - slope * (least.rows.value - rows), seconds * rows / least.rows.value,
                    seconds);
}

/// Returns the point on the line between the nearest sizes that were observed. Below all of them a
/// step costs what the smallest did; above them time grows in proportion.
StepCost::Point StepCost::at(int rows, bool boldly) const {
  const auto above = std::ranges::upper_bound(bins_, rows, {}, mean_rows);
  if (above == bins_.begin())
    return {above->context.value, boldly ? below_all(rows) : alone(*above)};
  const auto below = std::prev(above);
  const int size = size_of(rows);
  const bool observed = below->size == size || (above != bins_.end() && above->size == size);
  if (boldly && !observed && rows <= 2 * below->rows.value)
    return {below->context.value, unseen(*below, rows)};
  if (above == bins_.end())
    return {below->context.value, alone(*below) * rows / below->rows.value};
  const double share = (rows - below->rows.value) / (above->rows.value - below->rows.value);
  return {std::lerp(below->context.value, above->context.value, share),
          std::lerp(alone(*below), alone(*above), share)};
}

double StepCost::alone(int rows, double context, bool boldly) const {
  if (!is_measured())
    return prior_.seconds(rows);
  const Point known = at(rows, boldly);
  const double more = per_context_token() * (context - known.context);
  return std::max(known.seconds + more, known.seconds / 2);
}

double StepCost::seconds(int rows, double context) const {
  return alone(rows, context) + sharing() * beside_.value;
}

std::optional<base::Duration> StepCost::predict(int rows, double context) const {
  if (!is_known())
    return std::nullopt;
  return base::from_seconds(seconds(rows, context));
}

std::optional<base::Duration> StepCost::predict_boldly(int rows, double context) const {
  if (!is_known())
    return std::nullopt;
  return base::from_seconds(alone(rows, context, true));
}

double StepCost::least_seconds(const Bin& bin, double context) const {
  const double more = per_context_token() * std::min(0.0, context - bin.context.value);
  return std::max(alone(bin) + more, alone(bin) / 2);
}

double StepCost::least_above_all(int rows, double context) const {
  const Bin& largest = bins_.back();
  const double least = least_seconds(largest, context);
  if (bins_.size() == 1)
    return least;
  const Bin& before = bins_[bins_.size() - 2];
  const double slope =
      (least - least_seconds(before, context)) / (largest.rows.value - before.rows.value);
  return std::clamp(least + slope * (rows - largest.rows.value), least,
                    least * std::max(rows / largest.rows.value, 1.0));
}

double StepCost::least_seconds(int rows, double context) const {
  if (!is_measured())
    return prior_.seconds(rows);
  const auto above = std::ranges::upper_bound(bins_, rows, {}, mean_rows);
  if (above == bins_.end())
    return least_above_all(rows, context);
  const double share = least_seconds(*above, context) * rows / above->rows.value;
  if (above == bins_.begin())
    return share;
  return std::max(share, least_seconds(*std::prev(above), context));
}

std::optional<base::Duration> StepCost::predict_least(int rows, double context) const {
  if (!is_known())
    return std::nullopt;
  return base::from_seconds(least_seconds(rows, context));
}

base::Duration StepCost::timeout(int rows, double context, base::Duration least) const {
  if (!is_measured())
    return std::max<base::Duration>(least, limits::first_step_timeout);
  return std::max<base::Duration>(least, *predict(rows, context) * limits::stall_steps);
}

int StepCost::rows_within(base::Duration limit, double context, int most) const {
  if (!is_known())
    return most;
  int rows = most;
  while (rows > 1 && seconds(rows, context) > base::seconds(limit))
    rows = std::min(rows - 1, rows * 31 / 32);
  return std::max(rows, 1);
}

/// Looks at all sizes, since one of which only a slow step was seen says nothing of those below it.
int StepCost::knee(double context, int most) const {
  if (!is_known())
    return most;
  std::vector<double> per_row; // time of a row for `most` rows, and for a tile less each
  for (int rows = most; rows == most || rows > limits::row_tile; rows -= limits::row_tile)
    per_row.push_back(seconds(rows, context) / rows);
  const double enough = nearly_as_good * *std::ranges::min_element(per_row);
  if (enough <= 0)
    return most;
  const auto fewest = std::ranges::find_if(per_row.rbegin(), per_row.rend(),
                                           [enough](double of) { return of <= enough; });
  return most - limits::row_tile * int(per_row.rend() - fewest - 1);
}

} // namespace paceline::scheduling
