#include "tools/overlap_model.hpp"

#include "sampling/theory.hpp"

#include <cmath>
#include <doctest/doctest.h>

using namespace paceline::sampling;
using paceline::tools::OverlapModel;
using paceline::tools::simulate;

namespace {

// A rate is a mean over so many rounds, each a bounded number of tokens and milliseconds, that its
// standard error is below 0.3 %: 3 % is missed by chance with probability below 1e-20.
constexpr int rounds = 200'000;
constexpr std::uint64_t seed = 7;

double cost_ratio(const OverlapModel& m) {
  return m.draft_ms / m.target_ms;
}

double tokens_per_second(const OverlapModel& m, double tokens_per_target_step) {
  return 1000 * tokens_per_target_step / m.target_ms;
}

double sync_formula(const OverlapModel& m) {
  return tokens_per_second(m, theory::sync_rate(m.acceptance, m.window, cost_ratio(m), 1));
}

double overlap_formula(const OverlapModel& m) {
  const double hit = theory::chain_hit(m.acceptance, m.window);
  return tokens_per_second(m, theory::overlap_rate(m.acceptance, m.window, cost_ratio(m), 1, hit));
}

} // namespace

TEST_CASE("without lookahead the model agrees with E / (K c + v)") {
  for (const double a : {0.0, 0.5, 0.8, 0.95})
    for (int k = 1; k <= 8; ++k) {
      CAPTURE(a);
      CAPTURE(k);
      const OverlapModel model{.acceptance = a, .window = k, .lookahead = false};
      const auto result = simulate(model, rounds, seed);
      CHECK(result.tokens_per_second == doctest::Approx(sync_formula(model)).epsilon(0.03));
      CHECK(result.hit_rate == 0);
    }
}

TEST_CASE("where the lookahead fits under the pass the model agrees with E / (v + (1 - h) K c)") {
  for (const double a : {0.0, 0.5, 0.8, 0.95})
    for (int k = 1; k <= 6; ++k) { // 7 x 1.8 ms < 14.1 ms
      CAPTURE(a);
      CAPTURE(k);
      const OverlapModel model{.acceptance = a, .window = k};
      const auto result = simulate(model, rounds, seed);
      CHECK(result.tokens_per_second == doctest::Approx(overlap_formula(model)).epsilon(0.03));
      // Standard error at most 0.0012: false alarm below 1e-15.
      CHECK(std::abs(result.hit_rate - theory::chain_hit(a, k)) < 0.01);
    }
}

TEST_CASE("a draft that never errs is the only limit where it is the slower one") {
  // 5 tokens of 5 ms each in every round of 14 ms.
  const OverlapModel model{.target_ms = 14, .draft_ms = 5, .acceptance = 1, .window = 4};
  const auto result = simulate(model, rounds, seed);
  CHECK(result.tokens_per_second == doctest::Approx(1000.0 / 5).epsilon(1e-4));
  CHECK(result.hit_rate == 1);
}

TEST_CASE("a draft that always errs ends the token it is at, then drafts a window anew") {
  // The verdict comes after 14 ms, the third lookahead token after 15, the window after 35.
  const OverlapModel model{.target_ms = 14, .draft_ms = 5, .acceptance = 0, .window = 4};
  const auto result = simulate(model, rounds, seed);
  CHECK(result.tokens_per_second == doctest::Approx(1000.0 / 35).epsilon(1e-4));
  CHECK(result.hit_rate == 0);
}

TEST_CASE("a draft that waits at the end of its lookahead starts anew with the verdict") {
  // Three tokens of 1.8 ms, then idle until the verdict after 14 ms; the next window takes 3.6.
  const OverlapModel model{.target_ms = 14, .draft_ms = 1.8, .acceptance = 0, .window = 2};
  const auto result = simulate(model, rounds, seed);
  CHECK(result.tokens_per_second == doctest::Approx(1000.0 / 17.6).epsilon(1e-4));
}

TEST_CASE("a bound token is waited for past the pass's end") {
  // One round: a pass of 1 ms, and its lookahead's first token after 3.
  const OverlapModel model{.target_ms = 1, .draft_ms = 3, .acceptance = 1, .window = 2};
  CHECK(simulate(model, 1, seed).tokens_per_second == doctest::Approx(1000.0 * 3 / 3));
}

TEST_CASE("past the closed form's reach the model is slower than the form says") {
  for (const int k : {8, 10, 12}) { // 9 x 1.8 ms > 14.1 ms
    CAPTURE(k);
    const OverlapModel model{.acceptance = 0.9, .window = k};
    CHECK(simulate(model, rounds, seed).tokens_per_second < overlap_formula(model));
  }
}

TEST_CASE("the same seed gives the same figures") {
  const OverlapModel model;
  const auto first = simulate(model, 1000, 1);
  const auto again = simulate(model, 1000, 1);
  const auto other = simulate(model, 1000, 2);
  CHECK(first.tokens_per_second == again.tokens_per_second);
  CHECK(first.hit_rate == again.hit_rate);
  CHECK(first.tokens_per_second != other.tokens_per_second);
}
