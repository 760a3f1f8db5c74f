// A draft and a target on one device, whose passes take from each other: steps are simulated in
// times alone, and learned by what the scheduler learns them by.
#include "scheduling/step_cost.hpp"
#include "speculation/policy.hpp"
#include "tests/speculation/round_simulator.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::speculation;
using paceline::testing::Machine;
using paceline::testing::RoundSimulator;
namespace theory = paceline::sampling::theory;

namespace {

struct Settled {
  double rate = 0;   ///< Tokens in the time of a plain step.
  double window = 0; ///< The windows' mean.
  double ahead = 0;  ///< The share of rounds that draft past their windows.
  double sharing = 0;
};

/// Plays rounds of `overlap`, of which the last are counted.
Settled settle(const Machine& m, std::uint64_t seed) {
  scheduling::StepCost cost;
  PolicyOptions options;
  options.mode = SpeculationMode::overlap;
  options.fork_rows = 0;
  options.shares_device = true;
  SpeculationPolicy policy(options, [&cost](int rows) {
    return base::seconds(cost.predict_boldly(rows, 0).value_or(base::Duration{}));
  });
  RoundSimulator simulator(seed);
  constexpr int rounds = 1500;
  constexpr int counted = 1000;
  Settled settled;
  double seconds = 0;
  for (int i = 0; i < rounds; ++i) {
    const Plan plan = policy.plan();
    RoundObservation round = simulator.round(m, plan);
    const auto& [took, beside] = simulator.step();
    cost.observe(round.rows, 0, base::from_seconds(took), base::from_seconds(beside));
    round.sharing = cost.sharing();
    policy.observe(round);
    if (i < rounds - counted)
      continue;
    settled.rate += round.tokens;
    seconds += round.round_seconds;
    settled.window += double(plan.window) / counted;
    settled.ahead += double(plan.lookahead > 0) / counted;
  }
  settled.rate /= seconds;
  settled.sharing = cost.sharing();
  return settled;
}

template <class Rate>
double best_of(Rate rate) {
  double best = 0;
  for (int window = 1; window <= 16; ++window)
    best = std::max(best, rate(window));
  return best;
}

} // namespace

TEST_CASE("on a device that both share overlap drafts as much as pays by the theory") {
  std::uint64_t seed = 0;
  for (const double a : {0.5, 0.8, 0.95})
    for (const double c : {0.05, 0.1, 0.2})
      for (const double sharing : {0.2, 0.5, 0.8}) {
        CAPTURE(a);
        CAPTURE(c);
        CAPTURE(sharing);
        const Machine m{.a = a, .c = c, .overhead = 0, .cuts_windows = true, .sharing = sharing};
        const Settled settled = settle(m, ++seed);
        const double ahead = best_of([&](int k) {
          return theory::overlap_rate(a, k, c, 1, theory::chain_hit(a, k), {.sharing = sharing});
        });
        const double waiting = best_of([&](int k) { return theory::sync_rate(a, k, c, 1); });
        CHECK(settled.sharing == doctest::Approx(sharing).epsilon(0.2));
        CHECK(settled.rate > 0.95 * std::max(ahead, waiting));
        if (ahead < 0.97 * waiting) {
          CHECK(settled.ahead < 0.1);
          const int window = int(std::lround(settled.window)); // of some that are as good
          CHECK(theory::sync_rate(a, window, c, 1) > 0.98 * waiting);
        }
        if (ahead > 1.03 * waiting)
          CHECK(settled.ahead > 0.9);
      }
}
