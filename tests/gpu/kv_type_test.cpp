// Keys and values of 8 bits: their codes and scales, and the bytes that they take.
#include "gpu/operations.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace paceline::gpu;

namespace {

KvScale scale_of(const std::vector<float>& numbers) {
  std::uint32_t most = 0;
  for (const float number : numbers)
    most = std::max(most, KvScale::size(number));
  return KvScale(most);
}

} // namespace

TEST_CASE("codes are steps of 1/127 of the largest size, rounded to nearest, ties to even") {
  const KvScale scale = scale_of({-127, 3.4f, 2.5f, 3.5f, -0.5f, 0});
  CHECK(scale.scale() == 1);
  CHECK(scale.code(-127) == -127);
  CHECK(scale.code(127) == 127);
  CHECK(scale.code(3.4f) == 3);
  CHECK(scale.code(2.5f) == 2);
  CHECK(scale.code(3.5f) == 4);
  CHECK(scale.code(-0.5f) == 0);
  for (const float most : {1e-29f, 0.1f, 3e38f}) {
    const KvScale other = scale_of({most / 3, -most});
    CHECK(other.code(-most) == -127);
    CHECK(other.code(most / 3) == 42);
    CHECK(float(other.code(-most)) * other.scale() == doctest::Approx(-most).epsilon(1e-6));
  }
}

TEST_CASE("numbers that are all 0 or nearly so have codes of 0, and no infinity becomes a code") {
  CHECK(scale_of({0, 0}).scale() == 0);
  CHECK(scale_of({1e-38f}).code(1e-38f) == 0);
  for (const float bad : {HUGE_VALF, -HUGE_VALF, std::numeric_limits<float>::quiet_NaN()}) {
    const KvScale scale = scale_of({1, bad, -2});
    CHECK(std::isnan(scale.scale()));
    CHECK(scale.code(1) == 0);
    CHECK(scale.code(bad) == 0);
  }
}

TEST_CASE("a position takes a byte a number and four for each scale") {
  const KvLayout layout{3, 2, 64, 16, KvType::int8};
  CHECK(layout.token_bytes() == 3u * 2 * 2 * (64 + 4));
  CHECK(layout.offset(1, 1, 1) == (((1 * 2) + 1) * 2 + 1) * 16u * (64 + 4));
  CHECK(KvLayout{3, 2, 64, 16, KvType::bf16}.token_bytes() == 3u * 2 * 2 * 128);
}
