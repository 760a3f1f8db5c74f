#include "base/bf16.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>

using namespace paceline::base;

namespace {

constexpr std::uint32_t patterns = 1u << 16;

/// The value of a float format by its definition (IEEE 754-2019, 3.4), in double.
double value_by_definition(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits >> (exponent_bits + mantissa_bits)) & 1 ? -1 : 1;
  const int exponent = int(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double fraction =
      std::ldexp(double(bits & ((1u << mantissa_bits) - 1)), -mantissa_bits); // in [0, 1)
  if (exponent == (1 << exponent_bits) - 1)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0)
    return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

bool same(float actual, double expected) {
  if (std::isnan(expected))
    return std::isnan(actual);
  return double(actual) == expected && std::signbit(actual) == std::signbit(expected);
}

float next(float x, float towards) {
  return std::nextafter(x, towards);
}

} // namespace

TEST_CASE("every bf16 has the value its format defines") {
  int wrong = 0;
  for (std::uint32_t u = 0; u < patterns; ++u)
    wrong += !same(to_float(bf16{std::uint16_t(u)}), value_by_definition(u, 8, 7));
  CHECK(wrong == 0);
}

TEST_CASE("every f16 has the value its format defines") {
  int wrong = 0;
  for (std::uint32_t u = 0; u < patterns; ++u)
    wrong += !same(to_float(f16{std::uint16_t(u)}), value_by_definition(u, 5, 10));
  CHECK(wrong == 0);
}

TEST_CASE("every bf16 survives the way through f32, NaN as some NaN") {
  int wrong = 0;
  for (std::uint32_t u = 0; u < patterns; ++u) {
    const bf16 x{std::uint16_t(u)};
    const float f = to_float(x);
    wrong += std::isnan(f) ? !std::isnan(round_to_bf16(f)) : to_bf16(f) != x;
  }
  CHECK(wrong == 0);
}

TEST_CASE("f32 rounds to the nearest bf16, ties to the even one") {
  int wrong = 0;
  // All pairs of neighbours of one sign, up to the largest finite and infinity.
  for (std::uint32_t u = 0; u < 0x7F80u; ++u) {
    const bf16 below{std::uint16_t(u)};
    const bf16 above{std::uint16_t(u + 1)};
    const bf16 even = u % 2 == 0 ? below : above;
    const auto middle = std::bit_cast<float>((u << 16) | 0x8000u);
    const auto negative = [](bf16 x) { return bf16{std::uint16_t(x.bits | 0x8000u)}; };
    wrong += to_bf16(middle) != even;
    wrong += to_bf16(-middle) != negative(even);
    wrong += to_bf16(next(middle, 0)) != below;
    wrong += to_bf16(next(middle, INFINITY)) != above;
    wrong += to_bf16(-next(middle, INFINITY)) != negative(above);
  }
  CHECK(wrong == 0);
}

TEST_CASE("a NaN whose payload is all in the lower half stays a NaN") {
  CHECK(std::isnan(round_to_bf16(std::bit_cast<float>(0x7F800001u))));
  CHECK(std::isnan(round_to_bf16(std::bit_cast<float>(0xFF80FFFFu))));
  CHECK(std::isnan(round_to_bf16(std::bit_cast<float>(0x7FFFFFFFu))));
}
