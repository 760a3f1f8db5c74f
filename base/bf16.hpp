// bfloat16 and IEEE half as storage formats; arithmetic is in f32.
#pragma once

#include "base/host_device.hpp"

#include <bit>
#include <cstdint>

namespace paceline::base {

/// The upper half of an f32.
struct bf16 {
  std::uint16_t bits = 0;
  friend bool operator==(bf16, bf16) = default;
};

PACELINE_HOST_DEVICE inline float to_float(bf16 x) {
  return std::bit_cast<float>(std::uint32_t(x.bits) << 16);
}

/// Rounds to nearest, ties to even; NaN stays NaN.
PACELINE_HOST_DEVICE inline bf16 to_bf16(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u)
    return {std::uint16_t((u >> 16) | 0x40)};
  return {std::uint16_t((u + 0x7FFFu + ((u >> 16) & 1)) >> 16)};
}

PACELINE_HOST_DEVICE inline float round_to_bf16(float x) {
  return to_float(to_bf16(x));
}

struct f16 {
  std::uint16_t bits = 0;
};

/// Converts exactly.
PACELINE_HOST_DEVICE inline float to_float(f16 x) {
  const std::uint32_t sign = std::uint32_t(x.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 0x1Fu;
  const std::uint32_t mantissa = x.bits & 0x3FFu;
  if (exponent == 0) {
    const float magnitude = float(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t out = exponent == 31 ? 0xFFu : exponent + 112u;
  return std::bit_cast<float>(sign | (out << 23) | (mantissa << 13));
}

} // namespace paceline::base
