#include "speculation/estimates.hpp"

#include <doctest/doctest.h>
#include <initializer_list>
#include <optional>

using namespace paceline;
using namespace paceline::speculation;
using sampling::Guesses;
using sampling::Odds;

TEST_CASE(
    "acceptance is learned by how sure the draft was, from all positions where little is known") {
  Estimates estimates(0.7, 0.1);
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

namespace {

/// Rounds of one sequence whose steps take turns at these rows, and a time that swings by a tenth
/// whatever they are. row_cost: of the machine.
Estimates seen(std::optional<double> known, std::initializer_list<int> rows, double row_cost) {
  Estimates estimates(0.7, 0.1, known);
  for (int i = 0; i < 64; ++i) {
    RoundObservation round;
    round.sequences = 1;
    round.rows = rows.begin()[std::size_t(i) % rows.size()];
    round.target_seconds = (1 + row_cost * (round.rows - 1)) * (i / 2 % 2 ? 1.1 : 0.9);
    estimates.observe(round);
  }
  return estimates;
}

} // namespace

TEST_CASE("what a row costs is believed beforehand, and learned from steps that differ") {
  CHECK(seen({}, {4}, 0.1).v_slope(1) == 0); // nothing shows it
  CHECK(seen(0.1, {4}, 0.1).v_slope(1) == doctest::Approx(0.1).epsilon(0.05));
  CHECK(seen(0.1, {4, 4, 5, 4}, 0.1).v_slope(1) == doctest::Approx(0.1).epsilon(0.2));
  CHECK(seen(0.1, {1, 17}, 0.5).v_slope(1) == doctest::Approx(0.5).epsilon(0.1)); // a wrong belief
}
