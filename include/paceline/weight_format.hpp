// How the numbers of a weight matrix are written.
#pragma once

#include <cstdint>

namespace paceline {

/// Plain numbers, and the microscaling formats of OCP MX 1.0: blocks of 32 inputs of an output
/// share a power of two, and each element has as many bits as the name says (docs/weights.md).
enum class WeightFormat : std::uint8_t {
  f32,
  f16,
  bf16,
  mxfp8,      ///< E4M3: sign, 4 bits of exponent, 3 of mantissa.
  mxfp8_e5m2, ///< E5M2
  mxfp6,      ///< E2M3
  mxfp6_e3m2, ///< E3M2
  mxfp4,      ///< E2M1
  mxint8,     ///< Two's complement in units of 2^-6.
};

/// "f32", "mxfp6-e3m2"
const char* to_string(WeightFormat format) noexcept;

/// Which power of two a block of a microscaling format shares.
enum class ScaleChoice : std::uint8_t {
  floor,  ///< OCP MX 1.0, section 6.3: the largest element may be cut off.
  ceil,   ///< The least with which none is.
  search, ///< Of these two the one with the least squared error.
};

/// "floor", "ceil", "search"
const char* to_string(ScaleChoice choice) noexcept;

} // namespace paceline
