#include "sampling/theory.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <random>

using namespace paceline::sampling::theory;

namespace {

/// Mean tokens of a round in which each token is accepted with probability a.
double simulated_tokens(double a, int window, int rounds) {
  std::mt19937_64 random{std::uint64_t(window)};
  std::bernoulli_distribution accept(a);
  long tokens = 0;
  for (int i = 0; i < rounds; ++i) {
    int accepted = 0;
    while (accepted < window && accept(random))
      ++accepted;
    tokens += accepted + 1;
  }
  return double(tokens) / rounds;
}

double to_two_digits(double x) {
  return std::round(x * 100) / 100;
}

} // namespace

TEST_CASE("The operations and speed of Leviathan et al. 2022, table 1, come out") {
  struct Line {
    double a;
    int window;
    double operations;
    double speed;
  };
  for (const auto& line :
       {Line{0.6, 2, 1.53, 1.96}, Line{0.7, 3, 1.58, 2.53}, Line{0.8, 2, 1.23, 2.44},
        Line{0.8, 5, 1.63, 3.69}, Line{0.9, 2, 1.11, 2.71}, Line{0.9, 10, 1.60, 6.86}}) {
    CHECK(to_two_digits(operations_factor(line.a, line.window, 0)) == line.operations);
    CHECK(to_two_digits(sync_rate(line.a, line.window, 0, 1)) == line.speed);
  }
}

TEST_CASE("Expected tokens are the closed form, and its limit where a is 1") {
  CHECK(to_two_digits(expected_tokens(0.8, 5)) == 3.69);
  for (double a : {0.1, 0.5, 0.93, 0.999})
    for (int k : {1, 4, 16})
      CHECK(expected_tokens(a, k) == doctest::Approx((1 - std::pow(a, k + 1)) / (1 - a)));
  CHECK(expected_tokens(1, 7) == 8);
  CHECK(expected_tokens(0, 7) == 1);
  CHECK(expected_tokens(0.5, 0) == 1);
}

TEST_CASE("A simulated process makes the expected tokens") {
  constexpr int rounds = 100'000;
  for (double a : {0.3, 0.6, 0.8, 0.95})
    for (int window : {1, 3, 5, 12}) {
      // Six standard errors; a round has at most window + 1 tokens, so its deviation is below
      // half of that.
      const double error = 6 * (window + 1) / 2.0 / std::sqrt(rounds);
      CHECK(std::abs(simulated_tokens(a, window, rounds) - expected_tokens(a, window)) < error);
    }
}

TEST_CASE("Speculation improves time when acceptance exceeds the cost ratio") {
  // Leviathan et al. 2022, corollary 3.9: by at least (1 + a) / (1 + c), which K = 1 reaches.
  for (double a : {0.2, 0.5, 0.9})
    for (double c : {0.05, 0.3, 0.6}) {
      CHECK(sync_rate(a, 1, c, 1) == doctest::Approx((1 + a) / (1 + c)));
      CHECK((sync_rate(a, best_window_sync(a, c, 0, 16), c, 1) > 1) == (a > c));
    }
}

TEST_CASE("Best windows are those of a search") {
  CHECK(best_window_sync(0.8, 0.1, 0, 16) == 6); // 3.951 tokens in 1.6 steps
  CHECK(best_window_sync(0.1, 0.5, 0, 16) == 1);
  CHECK(best_window_sync(0.9, 0, 0, 16) == 16); // free drafting: as many as allowed
  CHECK(best_window_sync(1, 0.2, 0, 9) == 9);
  for (double a : {0.5, 0.7, 0.85, 0.95})
    for (double c : {0.02, 0.1, 0.3})
      for (double slope : {0.0, 0.05, 0.3})
        for (int k = 1; k <= 16; ++k) {
          const int sync = best_window_sync(a, c, slope, 16);
          CHECK(sync_rate(a, k, c, 1 + k * slope) <= sync_rate(a, sync, c, 1 + sync * slope));
          const int overlap = best_window_overlap(a, c, slope, 16);
          CHECK(overlap_rate(a, k, c, 1 + k * slope, chain_hit(a, k)) <=
                overlap_rate(a, overlap, c, 1 + overlap * slope, chain_hit(a, overlap)));
        }
}

TEST_CASE("Overlap is never slower than sync, and hides all drafting when every token hits") {
  for (double a : {0.3, 0.8, 1.0})
    for (int k = 1; k < 9; ++k) {
      const double c = 0.1;
      CHECK(overlap_rate(a, k, c, 1, chain_hit(a, k)) >= sync_rate(a, k, c, 1));
      CHECK(overlap_rate(a, k, c, 1, 0) == sync_rate(a, k, c, 1));
    }
  CHECK(overlap_rate(1, 5, 0.1, 1, 1) == 6);
  CHECK(overlap_rate(1, 5, 0.5, 1, 1) == doctest::Approx(6 / 3.0)); // drafting is the bottleneck
  CHECK(chain_hit(0.8, 3) == doctest::Approx(0.4096));
}

TEST_CASE(
    "At break-even speculation is as fast as plain decoding, and pays where drafts cost less") {
  for (double a : {0.3, 0.7, 0.9})
    for (int k : {1, 4, 7}) {
      const double c = break_even_cost(a, k, 1.1);
      CHECK(sync_rate(a, k, c, 1.1) == doctest::Approx(1));
      CHECK(sync_rate(a, k, c * 0.99, 1.1) > 1);
    }
}

TEST_CASE("A wire is in each answer of sync, and in the misses of overlap alone") {
  const Way wire{.round_trip = 0.2};
  CHECK(sync_rate(0.7, 4, 0.05, 1, wire) ==
        doctest::Approx(expected_tokens(0.7, 4) / (1 + 4 * 0.05 + 0.2)));
  const double hit = fork_hit(0.7, 4, 0.5);
  CHECK(overlap_rate(0.7, 4, 0.05, 1, hit, wire) ==
        doctest::Approx(expected_tokens(0.7, 4) / (1 + (1 - hit) * (4 * 0.05 + 0.2))));
  CHECK(overlap_rate(1, 4, 0.05, 1, 1, {.round_trip = 2}) == doctest::Approx(5 / 2.25));
}

TEST_CASE("On a shared device what is drafted ahead lengthens the verification") {
  CHECK(shared_step(1, 0.4, 0) == 1);
  CHECK(shared_step(1, 0.4, 0.5) == doctest::Approx(1.2));
  CHECK(shared_step(1, 9, 0.5) == doctest::Approx(2)); // half of it, and the draft as long
  const Way shared{.sharing = 0.5};
  const double hit = chain_hit(0.7, 3);
  CHECK(overlap_rate(0.7, 3, 0.1, 1, hit, shared) ==
        doctest::Approx(expected_tokens(0.7, 3) / (1.2 + (1 - hit) * 0.3)));
  CHECK(fork_rate(0.7, 3, 0.1, 0.1, 1, 0.9, 0.5) ==
        doctest::Approx(expected_tokens(0.7, 3) / (2 + 0.1 * 0.3)));
  // Lookahead pays where it comes true oftener than a pass beside a step costs.
  for (const double a : {0.5, 0.7, 0.9, 0.97})
    CHECK((overlap_rate(a, 3, 0.1, 1, chain_hit(a, 3), shared) > sync_rate(a, 3, 0.1, 1)) ==
          (3 * chain_hit(a, 3) > 4 * shared.sharing));
}

TEST_CASE("Forks turn misses into hits by the share that they guess") {
  CHECK(fork_hit(0.8, 4, 0) == chain_hit(0.8, 4));
  CHECK(fork_hit(0.8, 4, 1) == doctest::Approx(1));
  CHECK(fork_hit(0, 3, 0.6) == doctest::Approx(0.6));
}

TEST_CASE("Windows in flight are as fast as tools/pipeline_model, or bound it closely") {
  struct Cell {
    int stages;
    double chain; // What `tools/pipeline_model STAGES 0.8 0.1 4` prints.
    double forks;
  };
  for (const auto& cell : {Cell{1, 2.643, 3.038}, Cell{2, 3.031, 4.562}, Cell{4, 2.899, 4.217}}) {
    const Way way{.stages = cell.stages};
    const double chain = overlap_rate(0.8, 4, 0.1, 1, chain_hit(0.8, 4), way);
    const double forks = overlap_rate(0.8, 4, 0.1, 1, fork_hit(0.8, 4, 0.61), way);
    CHECK(chain > 0.99 * cell.chain);
    CHECK(chain < 1.06 * cell.chain);
    CHECK(forks > 0.99 * cell.forks);
    CHECK(forks < 1.09 * cell.forks);
  }
}

TEST_CASE("Acceptance is the overlap of two rows") {
  const float p[] = {0.5f, 0.3f, 0.2f};
  const float q[] = {0.2f, 0.3f, 0.5f};
  CHECK(acceptance(p, q) == doctest::Approx(0.7));
  CHECK(acceptance(p, p) == doctest::Approx(1));
}
