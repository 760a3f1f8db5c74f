#include "sampling/row_kernels.hpp"
#include "sampling/rules_core.hpp"
#include "tests/sampling/every_target.hpp"
#include "tests/sampling/infinity.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <random>
#include <utility>
#include <vector>

using namespace paceline::sampling;
using paceline::testing::infinity;
using paceline::testing::on_every_target;

namespace {

/// Lengths around every vector's width, and one with many blocks.
constexpr std::size_t lengths[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 65, 130, 1000, 5001};

std::vector<float> normal_row(std::size_t n, unsigned seed, float deviation = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> x(n);
  for (float& v : x)
    v = normal(random);
  return x;
}

} // namespace

TEST_CASE("extent finds the highest element and any NaN, wherever it stands") {
  on_every_target([] {
    CHECK(row::extent({}).highest == -infinity);
    for (std::size_t n : lengths) {
      auto x = normal_row(n, unsigned(n));
      const auto e = row::extent(x);
      CHECK(e.highest == *std::max_element(x.begin(), x.end()));
      CHECK_FALSE(e.nan);
      for (std::size_t i = 0; i < std::min<std::size_t>(n, 70); ++i) {
        const float kept = std::exchange(x[n - 1 - i], std::nanf(""));
        CHECK(row::extent(x).nan);
        x[n - 1 - i] = kept;
      }
    }
  });
}

TEST_CASE("find gives the first of equals") {
  on_every_target([] {
    for (std::size_t n : lengths) {
      std::vector<float> x(n, 1);
      CHECK(row::find(x, 2) == n);
      x[n / 2] = x[n - 1] = 2;
      CHECK(row::find(x, 2) == n / 2);
    }
  });
}

TEST_CASE("exponentials are right to a few parts in ten million, and exactly 1 at the highest") {
  on_every_target([] {
    for (std::size_t n : lengths) {
      const auto x = normal_row(n, unsigned(n), 8);
      const float highest = *std::max_element(x.begin(), x.end());
      const row::Exponential e{highest, 1 / 0.7f};
      std::vector<float> out(n);
      const double total = row::exponentials(x, e, 0, out.data());
      double expected = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double y = std::exp(double((x[i] - highest) * e.rate));
        expected += y;
        CHECK(double(out[i]) == doctest::Approx(y).epsilon(4e-7));
      }
      CHECK(total == doctest::Approx(expected).epsilon(4e-7));
      CHECK(row::exponentials(x, e, 0, nullptr) == total);
      CHECK(*std::max_element(out.begin(), out.end()) == 1);
      row::exponentials(x, e, 0.01f, out.data());
      for (float y : out)
        CHECK((y == 0 || y >= 0.01f));
    }
    const float impossible[] = {-infinity, 0, -1e30f};
    float out[3];
    CHECK(row::exponentials(impossible, {0, 1}, 0, out) == 1);
    CHECK((out[0] == 0 && out[1] == 1 && out[2] == 0));
  });
}

TEST_CASE("masses are whole numbers, the same for an element wherever it stands") {
  on_every_target([] {
    const auto x = normal_row(5001, 3);
    const row::Exponential e{*std::max_element(x.begin(), x.end()), 1};
    std::vector<float> out(x.size());
    const double total = row::masses(x, e, out.data());
    double sum = 0;
    for (std::size_t i = x.size(); i-- > 0;) { // another order, the same sum
      CHECK(out[i] == std::floor(out[i]));
      sum += double(out[i]);
    }
    CHECK(sum == total);
    for (std::size_t i = 0; i < 200; ++i) {
      float alone = 0;
      row::masses(std::span(&x[i], 1), e, &alone);
      CHECK(alone == out[i]);
    }
  });
}

TEST_CASE("collect and group_maxima agree with their definitions") {
  on_every_target([] {
    for (std::size_t n : lengths) {
      auto x = normal_row(n, unsigned(n));
      x[n / 3] = -infinity;
      std::vector<float> values(n + row::slack);
      std::vector<std::uint32_t> indices(n + row::slack);
      for (float cut : {-infinity, -1.0f, 0.0f, 2.5f, 100.0f}) {
        const std::size_t count = row::collect(x, cut, values.data(), indices.data());
        std::size_t expected = 0;
        for (std::size_t i = 0; i < n; ++i) {
          if (!(x[i] >= cut))
            continue;
          REQUIRE(expected < count);
          CHECK(indices[expected] == i);
          CHECK(values[expected++] == x[i]);
        }
        CHECK(count == expected);
      }
      for (std::size_t length : {1, 3, 64}) {
        const std::size_t groups = row::group_maxima(x, length, values.data());
        REQUIRE(groups * length <= n);
        // Each maximum stands for an element of its own.
        auto sorted = x;
        std::sort(sorted.begin(), sorted.end(), std::greater<>());
        std::sort(values.begin(), values.begin() + std::ptrdiff_t(groups), std::greater<>());
        for (std::size_t i = 0; i < groups; ++i)
          CHECK(values[i] <= sorted[i]);
        if (groups > 0)
          CHECK(values[0] >= sorted[n - groups * length]);
      }
    }
  });
}

TEST_CASE("keep_from keeps in place what reaches the cut") {
  on_every_target([] {
    for (std::size_t n : lengths) {
      const auto x = normal_row(n, unsigned(n));
      std::vector<float> values(x);
      std::vector<std::uint32_t> ids(n + row::slack);
      values.resize(n + row::slack);
      for (std::size_t i = 0; i < n; ++i)
        ids[i] = std::uint32_t(7 * i);
      const std::size_t count = row::keep_from(values.data(), ids.data(), n, 0.5f);
      std::size_t expected = 0;
      for (std::size_t i = 0; i < n; ++i) {
        if (x[i] < 0.5f)
          continue;
        REQUIRE(expected < count);
        CHECK(values[expected] == x[i]);
        CHECK(ids[expected++] == 7 * i);
      }
      CHECK(count == expected);
    }
  });
}

TEST_CASE("split parts pairs and adds their masses up") {
  on_every_target([] {
    for (std::size_t n : lengths) {
      std::mt19937 random{unsigned(n)};
      std::vector<float> x(n + row::slack), m(n + row::slack);
      for (std::size_t i = 0; i < n; ++i) {
        x[i] = float(random() % 10);
        m[i] = x[i] * 1000 + 1; // a pair can be told by its mass
      }
      const auto before = x;
      std::vector<float> above(n + row::slack), above_mass(n + row::slack);
      const auto s = row::split(x.data(), m.data(), n, 5, above.data(), above_mass.data());
      const auto in = [&](auto predicate) {
        return std::size_t(
            std::count_if(before.begin(), before.begin() + std::ptrdiff_t(n), predicate));
      };
      CHECK(s.above == in([](float v) { return v > 5; }));
      CHECK(s.equal == in([](float v) { return v == 5; }));
      CHECK(s.below == in([](float v) { return v < 5; }));
      CHECK(s.equal_mass == double(s.equal) * 5001);
      double sum = 0;
      for (std::size_t i = 0; i < s.above; ++i) {
        CHECK(above[i] > 5);
        CHECK(above_mass[i] == above[i] * 1000 + 1);
        sum += double(above_mass[i]);
      }
      CHECK(s.above_mass == sum);
      for (std::size_t i = 0; i < s.below; ++i) {
        CHECK(x[i] < 5);
        CHECK(m[i] == x[i] * 1000 + 1);
      }
    }
  });
}

TEST_CASE("sums are those of the elements") {
  on_every_target([] {
    for (std::size_t n : lengths) {
      std::vector<float> p(n), q(n);
      double plain = 0;
      double rest = 0;
      std::mt19937 random{unsigned(n)};
      for (std::size_t i = 0; i < n; ++i) { // multiples of 2^-10: exact in any order
        p[i] = float(random() % 1024) * 0x1p-10f;
        q[i] = float(random() % 1024) * 0x1p-10f;
        plain += double(p[i]);
        rest += double(residual(p[i], q[i]));
      }
      CHECK(row::sum(p) == plain);
      CHECK(row::residual_sum(p, q) == rest);
      row::scale(p, 0.5f);
      CHECK(row::sum(p) == plain / 2);
    }
  });
}
