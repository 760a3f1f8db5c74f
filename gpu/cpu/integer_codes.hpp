// Weight formats whose codes stand for integers.
#pragma once

#include "paceline/weight_format.hpp"

#include <array>
#include <cstdint>

namespace paceline::gpu::cpu {

/// The integers that the codes of a format stand for.
struct IntegerCodes {
  int bits = 0;   ///< Bits of a code in packed weights: 4, 5, 6 or 8.
  int part = 32;  ///< Inputs that share a scale: 16 or 32.
  float unit = 1; ///< What a number of 1 means before it is scaled; a power of two.
  int offset = 0; ///< Makes every number positive, or 0 where none is negative.
  /// The number of each code as it is packed; codes of 8 bits are their own numbers.
  std::array<std::int8_t, 64> numbers{};

  int number(std::uint8_t code) const { return bits == 8 ? std::int8_t(code) : numbers[code]; }
};

/// Returns the integers of a format; null if its codes are none, or have more than 8 bits.
const IntegerCodes* integer_codes(WeightFormat format);

} // namespace paceline::gpu::cpu
