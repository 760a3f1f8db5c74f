#include "speculation/estimates.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::speculation;
using sampling::Guesses;
using sampling::Odds;

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
