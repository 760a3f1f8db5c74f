#include "sampling/nucleus.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace paceline::sampling {
namespace {

template <class T>
T* grown(std::vector<T>& v, std::size_t size) {
  if (v.size() < size + row::slack)
    v.resize(size + row::slack);
  return v.data();
}

void collect(std::span<const float> logits, float cut, Candidates& out) {
  float* values = grown(out.values, logits.size());
  std::uint32_t* ids = grown(out.ids, logits.size());
  out.count = row::collect(logits, cut, values, ids);
}

/// Where a rank is cut: values above `value` stay, and the first `ties` of those equal to it.
struct Threshold {
  float value = 0;
  std::size_t ties = 0;
};

void keep_above(Threshold threshold, Candidates& kept) {
  float* values = kept.values.data();
  kept.count = row::keep_from(values, kept.ids.data(), kept.count, threshold.value);
  const auto equal = std::size_t(std::count(values, values + kept.count, threshold.value));
  if (equal <= threshold.ties)
    return;
  std::size_t count = 0;
  std::size_t ties = 0;
  for (std::size_t i = 0; i < kept.count; ++i) {
    if (values[i] == threshold.value && ++ties > threshold.ties)
      continue;
    values[count] = values[i];
    kept.ids[count++] = kept.ids[i];
  }
  kept.count = count;
}

/// The k-th highest of values, which are put into another order.
float kth_highest(float* values, std::size_t count, std::size_t k) {
  std::nth_element(values, values + (k - 1), values + count, std::greater<>());
  return values[k - 1];
}

/// A value that at least k of the logits reach, close to the k-th highest when k is small: the
/// k-th highest of the maxima of enough groups.
float low_bound_of_kth(std::span<const float> logits, std::size_t k, Candidates& scratch) {
  const auto length = std::clamp<std::size_t>(logits.size() / (8 * k), 1, 64);
  float* maxima = grown(scratch.pool_values[0], logits.size());
  const std::size_t groups = row::group_maxima(logits, length, maxima);
  return groups < k ? -std::numeric_limits<float>::infinity() : kth_highest(maxima, groups, k);
}

/// Middle of a few elements spread over a pool.
float choose_pivot(const float* values, std::size_t count) {
  float sample[9];
  for (std::size_t i = 0; i < 9; ++i)
    sample[i] = values[i * (count - 1) / 8];
  std::nth_element(sample, sample + 4, sample + 9);
  return sample[4];
}

/// The threshold at which the mass of the candidates reaches `goal` (quickselect by mass).
/// kept.masses: [kept.count], their sum at least `goal`; 0 < goal.
Threshold reach(double goal, Candidates& kept) {
  for (int side = 0; side < 2; ++side) {
    grown(kept.pool_values[side], kept.count);
    grown(kept.pool_masses[side], kept.count);
  }
  std::copy_n(kept.values.begin(), kept.count, kept.pool_values[0].begin());
  std::copy_n(kept.masses.begin(), kept.count, kept.pool_masses[0].begin());
  int side = 0;
  std::size_t count = kept.count;
  double above = 0; // mass of the values above the pool's
  while (count > 0) {
    float* values = kept.pool_values[side].data();
    float* masses = kept.pool_masses[side].data();
    const float pivot = choose_pivot(values, count);
    const auto s = row::split(values, masses, count, pivot, kept.pool_values[1 - side].data(),
                              kept.pool_masses[1 - side].data());
    if (above + s.above_mass >= goal) {
      side = 1 - side;
      count = s.above;
      continue;
    }
    above += s.above_mass;
    if (above + s.equal_mass >= goal) {
      const double each = s.equal_mass / double(s.equal);
      return {pivot, std::size_t(std::ceil((goal - above) / each))};
    }
    above += s.equal_mass;
    count = s.below;
  }
  return {-std::numeric_limits<float>::infinity(), 0};
}

double goal_of(float top_p, double total) {
  return std::max(double(top_p) * total, 1.0); // at least the likeliest token
}

void keep_goal(double goal, Candidates& kept) {
  keep_above(reach(goal, kept), kept);
}

} // namespace

void keep_top_k(std::span<const float> logits, std::size_t k, Candidates& kept) {
  collect(logits, low_bound_of_kth(logits, k, kept), kept);
  float* values = grown(kept.pool_values[0], kept.count);
  std::copy_n(kept.values.begin(), kept.count, values);
  const float kth = kth_highest(values, kept.count, k);
  const auto above = std::count_if(values, values + k, [=](float x) { return x > kth; });
  keep_above({kth, k - std::size_t(above)}, kept);
}

void keep_top_p(float top_p, row::Exponential e, Candidates& kept) {
  const std::span<const float> values{kept.values.data(), kept.count};
  const double total = row::masses(values, e, grown(kept.masses, kept.count));
  keep_goal(goal_of(top_p, total), kept);
}

void keep_top_p(std::span<const float> logits, float top_p, row::Exponential e, Candidates& kept) {
  const double total = row::masses(logits, e, nullptr);
  const double goal = goal_of(top_p, total);
  // Tokens so unlikely that all of them together could not fill what may be missing: they need not
  // be looked at. The estimate is checked, not trusted.
  const double share = (total - goal) / double(logits.size()) * row::mass_unit;
  const float cut = share > 0 ? e.highest + float(std::log(share)) / e.rate
                              : -std::numeric_limits<float>::infinity();
  for (float least : {cut, -std::numeric_limits<float>::infinity()}) {
    collect(logits, least, kept);
    const std::span<const float> values{kept.values.data(), kept.count};
    if (row::masses(values, e, grown(kept.masses, kept.count)) >= goal)
      break;
  }
  keep_goal(goal, kept);
}

} // namespace paceline::sampling
