#include "speculation/estimates.hpp"

#include <cmath>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::speculation;
using sampling::Guesses;
using sampling::Odds;

TEST_CASE(
    "a round brings what the draft expects of it, or else what its windows bring on average") {
  Estimates estimates(0.5);
  RoundObservation round;
  round.sequences = 2;
  round.rows = 8;
  round.windows = {2, 4};
  const double by_rate = (1.75 + 1.9375) / 2;
  CHECK(estimates.expected_tokens(round) == doctest::Approx(by_rate));
  round.expected = 5;
  CHECK(estimates.expected_tokens(round) == 3.5);
  CHECK(1 + (1 - std::pow(0.5, estimates.mean_window(round))) == doctest::Approx(by_rate));
  round.judged = 8;
  round.accepted = 4;
  round.tokens = 12;
  for (int i = 0; i < 1000; ++i)
    estimates.observe(round);
  CHECK(estimates.tokens_of(3.5, true) == doctest::Approx(6).epsilon(0.01));
}

TEST_CASE(
    "acceptance is learned by how sure the draft was, from all positions where little is known") {
  Estimates estimates(0.7);
  RoundObservation round;
  round.sequences = 1;
  round.judged = 2;
  round.accepted = 1;
  for (int i = 0; i < 400; ++i) {
    round.by_margin = {};
    round.by_margin.add(4.0f, true);
    round.by_margin.add(0.2f, false);
    estimates.observe(round);
  }
  const Odds odds = estimates.odds();
  Guesses guesses;
  guesses.margin = 4;
  CHECK(odds.accepted(guesses) > 0.95);
  guesses.margin = 0.2f;
  CHECK(odds.accepted(guesses) < 0.05);
  CHECK(odds.outcome(0.5, guesses, 1) ==
        doctest::Approx(0.5 * (1 - odds.accepted(guesses)) * odds.guess[1]));
  guesses.margin = -1.5f;
  CHECK(odds.accepted(guesses) == doctest::Approx(odds.acceptance));
  CHECK(odds.acceptance == doctest::Approx(0.5).epsilon(0.1));
}
