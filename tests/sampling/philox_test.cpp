#include "sampling/philox.hpp"
#include "tests/support/statistics.hpp"

#include <array>
#include <cmath>
#include <doctest/doctest.h>
#include <set>
#include <vector>

using namespace paceline::sampling;
namespace testing = paceline::testing;

namespace {

std::array<std::uint32_t, 4> words(PhiloxBlock b) {
  return {b.word[0], b.word[1], b.word[2], b.word[3]};
}

} // namespace

TEST_CASE("Philox4x32-10 gives the known answers of its authors") {
  using Words = std::array<std::uint32_t, 4>;
  CHECK(words(philox({{0, 0, 0, 0}}, 0, 0)) ==
        Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(words(philox({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u)) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(words(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0)) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("Every field of a key changes its noise") {
  const DrawKey base{1, 2, 3, 4, Purpose::accept};
  std::set<std::array<std::uint32_t, 4>> seen{words(noise(base))};
  const auto is_new = [&](DrawKey key) { return seen.insert(words(noise(key))).second; };
  CHECK(is_new({2, 2, 3, 4, Purpose::accept}));
  CHECK(is_new({1 | std::uint64_t(1) << 32, 2, 3, 4, Purpose::accept}));
  CHECK(is_new({1, 3, 3, 4, Purpose::accept}));
  CHECK(is_new({1, 2, 4, 4, Purpose::accept}));
  CHECK(is_new({1, 2, 3, 5, Purpose::accept}));
  for (auto purpose : {Purpose::draft, Purpose::residual, Purpose::target, Purpose::coupled})
    CHECK(is_new({1, 2, 3, 4, purpose}));
}

TEST_CASE("uniform fills [0, 1) evenly, and is independent across neighbouring positions") {
  constexpr std::size_t side = 16;
  std::vector<std::uint64_t> counts(side * side);
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    const double a = uniform({5, 0, 2 * i, 0, Purpose::draft});
    const double b = uniform({5, 0, 2 * i + 1, 0, Purpose::draft});
    REQUIRE((0 <= a && a < 1));
    ++counts[std::size_t(a * side) * side + std::size_t(b * side)];
  }
  const std::vector<double> even(side * side, 1.0 / (side * side));
  CHECK(testing::chi_square(even, counts).p_value > testing::false_alarm);
}

TEST_CASE("exponential has the exponential distribution, down to its finest values") {
  // Cells of equal probability, and then the same for what lies below 2^-8.
  constexpr std::size_t cells = 32;
  std::vector<std::uint64_t> counts(cells);
  std::vector<std::uint64_t> small(cells);
  for (std::uint32_t token = 0; token < 2'000'000; ++token) {
    const double e = exponential({9, 0, 1, 0, Purpose::coupled}, token);
    REQUIRE((e > 0 && std::isfinite(e)));
    const double u = -std::expm1(-e);
    ++counts[std::size_t(u * cells)];
    if (u < 0x1p-8)
      ++small[std::size_t(u * 0x1p8 * cells)];
  }
  const std::vector<double> even(cells, 1.0 / cells);
  CHECK(testing::chi_square(even, counts).p_value > testing::false_alarm);
  CHECK(testing::chi_square(even, small).p_value > testing::false_alarm);
}

TEST_CASE("exponential spends more bits where a draw is small") {
  // A token whose word is below 2^16 is found by search; its neighbours in value are much closer
  // than 2^-32.
  const DrawKey key{11, 0, 7, 0, Purpose::coupled};
  int found = 0;
  for (std::uint32_t token = 0; token < 400'000; ++token) {
    const std::uint32_t word = noise(key, token / 4).word[token % 4];
    if (word >= (1u << 16))
      continue;
    const double v = -std::expm1(-exponential(key, token)) * 0x1p32;
    CHECK((v > word && v < word + 1.0));
    found += std::abs(v - (word + 0.5)) > 1e-6;
  }
  CHECK(found > 0);
}
