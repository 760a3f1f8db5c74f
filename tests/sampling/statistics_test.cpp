#include "tests/support/statistics.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <vector>

using namespace paceline::testing;

namespace {

/// Returns the p-value of so many likely cells that differ by this statistic.
double p_value(std::size_t cells, double statistic) {
  constexpr double expected = 1e12;
  std::vector<std::uint64_t> counts(cells, std::uint64_t(expected));
  const auto moved = std::uint64_t(std::sqrt(statistic * expected / 2));
  counts[0] += moved;
  counts[1] -= moved;
  return chi_square(std::vector<double>(cells, 1.0 / double(cells)), counts).p_value;
}

} // namespace

TEST_CASE("The chi-square tail has the values of the tables") {
  // Critical values of chi-square at 5 %, 1 % and 0.1 %.
  CHECK(p_value(2, 3.841459) == doctest::Approx(0.05).epsilon(1e-5));
  CHECK(p_value(11, 23.20925) == doctest::Approx(0.01).epsilon(1e-5));
  CHECK(p_value(101, 149.4493) == doctest::Approx(0.001).epsilon(1e-4));
  CHECK(p_value(3, 100) == doctest::Approx(std::exp(-50)).epsilon(1e-4));
  CHECK(p_value(7, 0) == 1);
}

TEST_CASE("Chi-square pools rare cells, and a count in an impossible cell is a certain misfit") {
  const double fair[] = {0.5, 0.4, 0.06, 0.04};
  const std::uint64_t counts[] = {50, 40, 6, 4};
  const auto fit = chi_square(fair, counts);
  CHECK(fit.cells == 3); // 6 and 4 expected together make a cell of 10
  CHECK(fit.p_value == doctest::Approx(1));
  const double impossible[] = {1, 0};
  const std::uint64_t one[] = {99, 1};
  CHECK(chi_square(impossible, one).p_value == 0);
}
