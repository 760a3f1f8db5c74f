#include "speculation/window_shares.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace paceline::speculation;

namespace {

/// Weights are read in 10 ms, which is enough for so many rows; each further one takes 1 ms.
ShareTerms hinge(int rows, int free_rows, double drafting = 0.001) {
  ShareTerms terms;
  terms.rows = rows;
  terms.rows_max = 10'000;
  terms.longest = 16;
  terms.drafting = [drafting](int window) { return window * drafting; };
  terms.seconds = [free_rows](int of) { return 0.010 + 0.001 * std::max(0, of - free_rows); };
  return terms;
}

std::vector<int> shares(const std::vector<double>& acceptance, const ShareTerms& terms) {
  std::vector<WindowGains> gains;
  for (const double a : acceptance)
    gains.push_back(WindowGains::synchronous(a, 16));
  return share_windows(gains, terms).windows;
}

int sum(const std::vector<int>& windows) {
  return std::accumulate(windows.begin(), windows.end(), 0);
}

} // namespace

TEST_CASE("one sequence has the window of most tokens per second") {
  CHECK(shares({0.8}, hinge(1, 100)) == std::vector{6}); // Leviathan et al. 2022: c = 0.1
  CHECK(shares({0.6}, hinge(1, 100)) == std::vector{3});
  CHECK(shares({0.8}, hinge(1, 1)).front() < 6);
}

TEST_CASE("the rate of what is shared out is what its windows bring") {
  const WindowGains gains = WindowGains::synchronous(0.8, 16);
  const WindowShares alone = share_windows({{gains}}, hinge(1, 100));
  CHECK(alone.rate == doctest::Approx((1 - std::pow(0.8, 7)) / 0.2 / 0.016));
  CHECK(share_windows({{gains, gains}}, hinge(2, 100)).rate == doctest::Approx(2 * alone.rate));
  CHECK(share_windows({}, hinge(4, 100)).rate == doctest::Approx(400)); // prompts alone
}

TEST_CASE("windows shrink to none as sequences come") {
  int before = 16;
  for (const int sequences : {1, 2, 4, 8, 12, 16, 24, 32, 64}) {
    const auto windows =
        shares(std::vector<double>(std::size_t(sequences), 0.8), hinge(sequences, 16));
    const int most = *std::ranges::max_element(windows);
    CHECK(most <= before);
    CHECK(most - *std::ranges::min_element(windows) <= 1);
    before = most;
  }
  CHECK(before == 0);
}

TEST_CASE("rows go to those whose drafts are believed, and the others go without") {
  const auto windows = shares({0.9, 0.2, 0.9, 0.2}, hinge(4, 16));
  CHECK(windows[0] > 4);
  CHECK(windows[0] == windows[2]);
  CHECK(windows[1] <= 1);
  CHECK(shares({0.9, 0.05, 0.9, 0.05}, hinge(4, 8)) == std::vector{2, 0, 2, 0});
}

TEST_CASE("rows of prompts are worth a token each, so windows get the rows that cost nothing") {
  CHECK(shares({0.9, 0.9}, hinge(2 + 14, 16)) == std::vector{0, 0});
  const auto windows = shares({0.9, 0.9}, hinge(2 + 10, 16, 0));
  CHECK(sum(windows) == 4);
}

TEST_CASE("a budget of rows is kept") {
  ShareTerms terms = hinge(4, 100, 0);
  terms.rows_max = 9;
  CHECK(sum(shares({0.8, 0.8, 0.8, 0.8}, terms)) == 5);
  terms.rows_max = 3;
  CHECK(sum(shares({0.8, 0.8, 0.8, 0.8}, terms)) == 0);
}

TEST_CASE("a mode that was asked for keeps windows of a token, and a probe has some") {
  ShareTerms terms = hinge(32, 16);
  terms.shortest = 1;
  CHECK(shares(std::vector<double>(32, 0.6), terms) == std::vector<int>(32, 1));
  terms.shortest = 0;
  terms.scouts = 2;
  CHECK(sum(shares(std::vector<double>(32, 0.6), terms)) == 2);
}

TEST_CASE(
    "a window that is there is worth more than one that is not, and mostly for what follows") {
  std::vector<double> hits;
  for (int window = 0; window < 8; ++window)
    hits.push_back(std::pow(0.8, window + 1));
  hits.push_back(0.5);
  const OverlappedSequence sequence(0.8, hits);
  CHECK(sequence.rate() > 3);
  CHECK(sequence.rate() < 4.33);
  for (int bound = 1; bound < 8; ++bound)
    CHECK(sequence.value(bound) < sequence.value(8));
  // A step without any may find the next one drafted: that is worth a good part of a window.
  CHECK(sequence.value(8) - sequence.value(0) < 4.33 - 1);
}

TEST_CASE("windows that nobody waits for are longer where lookahead comes true") {
  const std::vector<double> never{0.8, 0, 0, 0, 0, 0, 0, 0, 0};
  const std::vector<double> mostly{0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8};
  const WindowGains lost = WindowGains::overlapped(0.8, never);
  const WindowGains hit = WindowGains::overlapped(0.8, mostly);
  double sum_lost = 1;
  double sum_hit = 1;
  for (int token = 1; token <= 8; ++token) {
    sum_lost += token <= lost.tokens() ? lost[token] : 0;
    sum_hit += hit[token];
  }
  CHECK(sum_lost == doctest::Approx((0.8 * 4.329 + 1) / 1.8).epsilon(0.01));
  CHECK(sum_hit == doctest::Approx((0.8 * 4.329 + 0.2) / 1.0).epsilon(0.01));
}
