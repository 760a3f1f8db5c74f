// Passes over one row of logits or probabilities: the vectorised inside of warp.hpp and rules.hpp.
// Compiled for every instruction set the machine may have (Highway) and chosen at run time. Each
// result is a function of the row alone; sums are taken in an order that only its length fixes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::sampling::row {

/// Arrays that receive a selection need this many elements more than the row.
inline constexpr std::size_t slack = 64;

/// Masses are exponentials in units of 2^-34, rounded down: integers, so that their sum is exact
/// in a double whatever its order (rows of up to 2^19 tokens).
inline constexpr double mass_unit = 0x1p-34;

struct Extent {
  float highest; ///< -infinity for an empty row; unspecified when there is a NaN.
  bool nan;
};
Extent extent(std::span<const float> x);

/// The first index that holds `value`, x.size() if none does.
std::size_t find(std::span<const float> x, float value);

/// exp((x - highest) * rate), for x <= highest.
struct Exponential {
  float highest = 0;
  float rate = 1;
};
/// out[i] = its exponential, 0 if that is below `floor`; returns the sum. out: [x.size()]; it may
/// be x, or null when only the sum is wanted.
double exponentials(std::span<const float> x, Exponential e, float floor, float* out);
/// The same in whole mass units.
double masses(std::span<const float> x, Exponential e, float* out);

void scale(std::span<float> x, float factor);

/// The highest of each of several groups of elements (which ones is left open); elements past the
/// last whole group are in none. maxima: [x.size() / group_length + slack]; returns their number.
std::size_t group_maxima(std::span<const float> x, std::size_t group_length, float* maxima);

/// The elements that are >= cut, and their indices, in order. values, indices: [x.size() + slack].
std::size_t collect(std::span<const float> x, float cut, float* values, std::uint32_t* indices);

/// Keeps the pairs whose value is >= cut, in order and in place; returns their number.
/// values, ids: [count + slack].
std::size_t keep_from(float* values, std::uint32_t* ids, std::size_t count, float cut);

/// Parts of a set of (value, mass) pairs.
struct Split {
  std::size_t above = 0; ///< Pairs with value > pivot,
  double above_mass = 0;
  std::size_t equal = 0; ///< = pivot,
  double equal_mass = 0;
  std::size_t below = 0; ///< < pivot.
};
/// Moves pairs above the pivot to `above_*`; those below stay in place, closed up.
/// All arrays: [count + slack].
Split split(float* values, float* masses, std::size_t count, float pivot, float* above_values,
            float* above_masses);

double sum(std::span<const float> x);
/// Sum of max(0, p - q).
double residual_sum(std::span<const float> p, std::span<const float> q);

} // namespace paceline::sampling::row
