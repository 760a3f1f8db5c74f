// When forks are written, how many, and what windows they leave time for.
#include "speculation/policy.hpp"
#include "tests/speculation/round_simulator.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::speculation;
using paceline::testing::Machine;
using paceline::testing::policy_on;
using Simulator = paceline::testing::RoundSimulator;

TEST_CASE("Forks are used where guesses are good, a chain where they are not") {
  for (const double guess : {0.6, 0.0}) {
    const Machine m{.a = 0.8, .c = 0.1, .guess = guess};
    PolicyOptions options;
    options.mode = SpeculationMode::overlap;
    SpeculationPolicy policy = policy_on(m, options);
    Simulator simulator(12);
    for (int i = 0; i < 1500; ++i) {
      policy.observe(simulator.round(m, policy.plan()));
      policy.observe_guess(guess > 0 ? i % 3 - 1 : -1);
    }
    CHECK((policy.plan().fork_rows > 0) == (guess > 0));
  }
}

TEST_CASE(
    "Many sequences have a row of forks each where rows are free, and none where they are dear") {
  for (const double cost : {0.0, 0.5}) {
    const Machine m{.a = 0.8, .c = 0.1, .sequences = 16, .fork_cost = cost};
    PolicyOptions options;
    options.mode = SpeculationMode::overlap;
    SpeculationPolicy policy = policy_on(m, options);
    Simulator simulator(14);
    int forks = 0;
    for (int i = 0; i < 1500; ++i) {
      const Plan plan = policy.plan();
      forks += i >= 1000 ? plan.fork_rows : 0;
      policy.observe(simulator.round(m, plan));
      if (plan.fork_rows > 0 || plan.learns_guesses)
        policy.observe_guess(i % 3 - 1);
    }
    const double mean = forks / 500.0;
    CAPTURE(mean);
    CHECK((cost == 0 ? mean > 32 : mean < 16));
  }
}

TEST_CASE("Guesses that were bad are looked at again, and forks come with good ones") {
  const Machine m{.a = 0.8, .c = 0.1, .guess = 0.6};
  PolicyOptions options;
  options.mode = SpeculationMode::overlap;
  SpeculationPolicy policy = policy_on(m, options);
  Simulator simulator(15);
  const auto rounds = [&](int count, bool good) {
    for (int i = 0; i < count; ++i) {
      const Plan plan = policy.plan();
      policy.observe(simulator.round(m, plan));
      if (plan.fork_rows > 0 || plan.learns_guesses)
        policy.observe_guess(good ? i % 3 - 1 : -1);
    }
  };
  rounds(1500, false);
  CHECK(policy.plan().fork_rows == 0);
  rounds(3000, true);
  CHECK(policy.plan().fork_rows > 0);
}
