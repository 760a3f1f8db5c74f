// Traffic as it is described.
#include "placement/workload.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <doctest/doctest.h>
#include <numeric>

using namespace paceline;
using namespace paceline::placement;
using doctest::Approx;

namespace {

struct GapFigures {
  double rate = 0;
  double cv = 0;
};

GapFigures gap_figures(const Workload& workload) {
  const auto& arrivals = workload.arrivals;
  double sum = 0, squares = 0;
  for (std::size_t i = 1; i < arrivals.size(); ++i) {
    const double gap = arrivals[i].seconds - arrivals[i - 1].seconds;
    sum += gap;
    squares += gap * gap;
  }
  const auto n = double(arrivals.size() - 1);
  const double mean = sum / n;
  return {double(arrivals.size()) / workload.seconds, std::sqrt(squares / n - mean * mean) / mean};
}

} // namespace

TEST_CASE("gaps have the rate and the coefficient of variation that were asked for") {
  for (const double cv : {0.3, 1.0, 3.0}) {
    const std::array traffic{Traffic{4, cv}};
    const auto figures = gap_figures(draw_workload(traffic, 100'000, 1));
    CAPTURE(cv);
    CHECK(figures.rate == Approx(4).epsilon(0.03));
    CHECK(figures.cv == Approx(cv).epsilon(0.03));
  }
}

TEST_CASE("a run begins anywhere in its traffic, not with a burst") {
  const std::array traffic{Traffic{1, 4}};
  std::size_t early = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed)
    early += draw_workload(traffic, 1, seed).arrivals.size();
  // Mean 4,000, deviation about 64 times the root of the index of dispersion, at most 16.
  CHECK(std::abs(double(early) - 4000) < 6 * 64 * 4);
}

TEST_CASE("the same seed gives the same arrivals, whatever other models do") {
  const std::array both{Traffic{2, 2}, Traffic{3, 1, 5, 10}};
  const auto one = draw_workload(both, 100, 7);
  const auto alone = draw_workload(std::span(both).first(1), 100, 7);
  const std::array first{0};
  const auto kept = only(one, first);
  REQUIRE(kept.arrivals.size() == alone.arrivals.size());
  for (std::size_t i = 0; i < kept.arrivals.size(); ++i)
    CHECK(kept.arrivals[i].seconds == alone.arrivals[i].seconds);
  CHECK(draw_workload(both, 100, 8).arrivals.size() != one.arrivals.size());
  CHECK(std::is_sorted(one.arrivals.begin(), one.arrivals.end(),
                       [](auto& a, auto& b) { return a.seconds < b.seconds; }));
}

TEST_CASE("arrivals are those of every platform") {
  const std::array traffic{Traffic{1, 3}};
  const auto workload = draw_workload(traffic, 100, 42);
  REQUIRE(workload.arrivals.size() == 95);
  CHECK(workload.arrivals.front().seconds == Approx(7.93939));
  CHECK(workload.arrivals.back().seconds == Approx(91.8545));
}

TEST_CASE("with periods the rate is over all time, and requests crowd where they come") {
  const std::array traffic{Traffic{2, 1, 10, 30}};
  const auto workload = draw_workload(traffic, 200'000, 3);
  CHECK(double(workload.arrivals.size()) / workload.seconds == Approx(2).epsilon(0.05));
  CHECK(gap_figures(workload).cv > 3);
}

TEST_CASE("a power law shares out a rate") {
  const auto rates = power_law_rates(11, 3, 1);
  REQUIRE(rates.size() == 3);
  CHECK(rates[0] == Approx(6));
  CHECK(rates[1] == Approx(3));
  CHECK(rates[2] == Approx(2));
  CHECK(power_law_rates(6, 3, 0)[2] == Approx(2));
}

TEST_CASE("a workload is split into runs of as many requests") {
  const Workload workload{1e9 + 10, {{1, 0}, {4.9, 1}, {5, 0}, {1e9, 1}}};
  const auto halves = split(workload, 2);
  REQUIRE(halves.size() == 2);
  CHECK(halves[0].seconds == 5);
  CHECK(halves[0].arrivals.size() == 2);
  CHECK(halves[1].seconds == 1e9 + 5);
  CHECK(halves[1].arrivals[0].seconds == 0);
  CHECK(halves[1].arrivals[1].seconds == 1e9 - 5);
  CHECK(split(workload, 10).size() == 4); // None is empty.
  CHECK(split({10, {}}, 10).empty());
}
