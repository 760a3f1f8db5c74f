#include "sampling/nucleus.hpp"

#include <algorithm>
#include <cmath>
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

/// The cut of a ranking: values above `value` stay, and the first `ties` of those equal to it.
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

/// Returns the median of nine elements spread over the pool.
float choose_pivot(const float* values, std::size_t count) {
  float sample[9];
  for (std::size_t i = 0; i < 9; ++i)
    sample[i] = values[i * (count - 1) / 8];
  std::nth_element(sample, sample + 4, sample + 9);
  return sample[4];
}

/// Returns the threshold at which the mass of the candidates, taken from the highest value down,
/// reaches `goal`. The search is quickselect by mass, which is by rank if every mass is 1.
/// kept.masses: [kept.count], their sum is at least `goal`; 0 < goal.
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

Threshold reach_rank(std::size_t k, Candidates& kept) {
  std::fill_n(grown(kept.masses, kept.count), kept.count, 1.0f);
  return reach(double(k), kept);
}

/// Returns a value that at least k of the logits reach, close to the k-th highest: the k-th highest
/// of the maxima of groups, which are short so that there are many more than k. -infinity for a
/// large k.
float low_bound_of_kth(std::span<const float> logits, std::size_t k, Candidates& scratch) {
  const auto length = std::min<std::size_t>(logits.size() / (8 * k), 64);
  if (length < 4)
    return -std::numeric_limits<float>::infinity();
  float* maxima = grown(scratch.values, logits.size());
  scratch.count = row::group_maxima(logits, length, maxima);
  return scratch.count < k ? -std::numeric_limits<float>::infinity() : reach_rank(k, scratch).value;
}

/// Returns a cut below which the mass is about `spare`, and rather less, estimated from a sample of
/// the logits. It does not matter that the sample misses likely tokens, since these are above the
/// cut. -infinity for few logits.
float guessed_cut(std::span<const float> logits, double spare, row::Exponential e,
                  Candidates& scratch) {
  constexpr std::size_t sampled = 512;
  constexpr double caution = 0.8;
  const std::size_t stride = logits.size() / sampled;
  if (stride < 8)
    return -std::numeric_limits<float>::infinity();
  float* values = grown(scratch.values, sampled);
  for (std::size_t i = 0; i < sampled; ++i)
    values[i] = logits[i * stride];
  scratch.count = sampled;
  const double total = row::masses({values, sampled}, e, grown(scratch.masses, sampled));
  const double above = total - caution * spare / double(stride);
  return above > 0 ? reach(above, scratch).value : row::extent({values, sampled}).highest;
}

double goal_of(float top_p, double total) {
  return std::max(double(top_p) * total, 1.0); // keeps at least the likeliest token
}

} // namespace

void keep_top_k(std::span<const float> logits, std::size_t k, Candidates& kept) {
  collect(logits, low_bound_of_kth(logits, k, kept), kept);
  keep_above(reach_rank(k, kept), kept);
}

void keep_top_p(float top_p, row::Exponential e, Candidates& kept) {
  const std::span<const float> values{kept.values.data(), kept.count};
  const double total = row::masses(values, e, grown(kept.masses, kept.count));
  keep_above(reach(goal_of(top_p, total), kept), kept);
}

void keep_top_p(std::span<const float> logits, float top_p, row::Exponential e, Candidates& kept) {
  const double total = row::masses(logits, e, nullptr);
  const double goal = goal_of(top_p, total);
  // All tokens below `cut` together have less mass than total - goal, so they can be skipped.
  // Mostly the sample allows a higher cut. Both cuts are checked, and lowered where they miss the
  // goal.
  const double share = (total - goal) / double(logits.size()) * row::mass_unit;
  const float cut = share > 0 ? e.highest + float(std::log(share)) / e.rate
                              : -std::numeric_limits<float>::infinity();
  const float guess = std::max(cut, guessed_cut(logits, total - goal, e, kept));
  for (float least : {guess, cut, -std::numeric_limits<float>::infinity()}) {
    collect(logits, least, kept);
    const std::span<const float> values{kept.values.data(), kept.count};
    if (row::masses(values, e, grown(kept.masses, kept.count)) >= goal)
      break;
  }
  keep_above(reach(goal, kept), kept);
}

} // namespace paceline::sampling
