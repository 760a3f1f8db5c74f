#include "tests/support/statistics.hpp"

#include <doctest/doctest.h>

using namespace paceline::testing;

TEST_CASE("The chi-square tail has the values of the tables") {
  // Critical values of chi-square at 5 %, 1 % and 0.1 %.
  CHECK(upper_gamma(0.5, 3.841459 / 2) == doctest::Approx(0.05).epsilon(1e-5));
  CHECK(upper_gamma(5, 23.20925 / 2) == doctest::Approx(0.01).epsilon(1e-5));
  CHECK(upper_gamma(50, 149.4493 / 2) == doctest::Approx(0.001).epsilon(1e-4));
  CHECK(upper_gamma(1, 50) == doctest::Approx(std::exp(-50)).epsilon(1e-12));
  CHECK(upper_gamma(3, 0) == 1);
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
