// Passes over one row of logits or probabilities, the vectorised core of warp.hpp and rules.hpp.
// They are compiled for each supported instruction set (Highway) and chosen at run time. Each
// result depends on the row alone; the order of a sum depends only on the row's length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace paceline::sampling::row {

inline constexpr float infinity = std::numeric_limits<float>::infinity();

/// Arrays that receive a selection need this many elements more than the row has.
inline constexpr std::size_t slack = 64;

/// The unit of masses: exponentials in units of 2^-34, rounded down. They are integers, so that
/// their sum is exact in a double whatever its order (rows of up to 2^19 tokens).
inline constexpr double mass_unit = 0x1p-34;

struct Extent {
  float highest; ///< -infinity for an empty row; unspecified when there is a NaN.
  bool nan;
};
Extent extent(std::span<const float> x);

/// Returns the first index that holds `value`, x.size() if none does.
std::size_t find(std::span<const float> x, float value);

/// The function exp((x - highest) * rate), for x <= highest.
struct Exponential {
  float highest = 0;
  float rate = 1;
};
/// Sets out[i] to the exponential of x[i], or to 0 if that is below `floor`; returns the sum. out:
/// [x.size()]; may be x, or null if only the sum is wanted.
double exponentials(std::span<const float> x, Exponential e, float floor, float* out);
/// Does the same in whole mass units, without a floor.
double masses(std::span<const float> x, Exponential e, float* out);

void scale(std::span<float> x, float factor);

/// Finds the maxima of disjoint groups of elements (which elements form a group is unspecified);
/// elements past the last whole group are skipped. maxima: [x.size() / group_length + slack].
/// Returns their number.
std::size_t group_maxima(std::span<const float> x, std::size_t group_length, float* maxima);

/// Copies the elements >= cut and their indices, in order. values, indices: [x.size() + slack].
std::size_t collect(std::span<const float> x, float cut, float* values, std::uint32_t* indices);

/// Keeps the pairs whose value is >= cut, in order and in place; returns their number.
/// values, ids: [count + slack].
std::size_t keep_from(float* values, std::uint32_t* ids, std::size_t count, float cut);

/// Numbers and masses of the parts of a set of (value, mass) pairs.
struct Split {
  std::size_t above = 0; ///< Pairs with value > pivot.
  double above_mass = 0;
  std::size_t equal = 0; ///< Pairs with value = pivot.
  double equal_mass = 0;
  std::size_t below = 0; ///< Pairs with value < pivot.
};
/// Moves pairs above the pivot to `above_*`; those below stay in place without gaps.
/// All arrays: [count + slack].
Split split(float* values, float* masses, std::size_t count, float pivot, float* above_values,
            float* above_masses);

double sum(std::span<const float> x);
/// Returns the sum of max(0, p - q).
double residual_sum(std::span<const float> p, std::span<const float> q);

} // namespace paceline::sampling::row
