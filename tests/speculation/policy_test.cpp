#include "sampling/theory.hpp"
#include "speculation/policy.hpp"
#include "tests/speculation/round_simulator.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <random>
#include <vector>

using namespace paceline;
using namespace paceline::speculation;
using namespace paceline::sampling;
using paceline::testing::Machine;
using paceline::testing::policy_on;
using Simulator = paceline::testing::RoundSimulator;

namespace {

constexpr SpeculationMode all_modes[] = {SpeculationMode::off, SpeculationMode::sync,
                                         SpeculationMode::overlap};

/// What a policy is told that knows nothing of steps.
double unknown(int /*rows*/) {
  return 0;
}

/// Returns options with a chain for a lookahead, whose rounds have a formula.
PolicyOptions chained() {
  PolicyOptions options;
  options.lookahead = Lookahead::chain;
  return options;
}

struct Run {
  double rate = 0;               ///< Tokens per second and sequence.
  std::array<double, 3> share{}; ///< Of rounds, by mode.
};

/// Feeds `rounds` rounds to a policy; counts the last `counted` of them.
Run run(SpeculationPolicy& policy, Simulator& simulator, const Machine& m, int rounds,
        int counted) {
  Run out;
  double seconds = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto r = simulator.round(m, policy.plan());
    policy.observe(r);
    if (i < rounds - counted)
      continue;
    out.rate += double(r.tokens) / m.sequences;
    seconds += r.round_seconds;
    out.share[std::size_t(r.mode)] += 1.0 / counted;
  }
  out.rate /= seconds;
  return out;
}

/// Long run of one fixed mode and window.
double fixed_rate(const Machine& m, SpeculationMode mode, int window, int rounds) {
  PolicyOptions options = chained();
  options.mode = mode;
  options.window = window;
  SpeculationPolicy policy = policy_on(m, options);
  Simulator simulator(99);
  return run(policy, simulator, m, rounds, rounds).rate;
}

/// The same, by expectation: sequences' hits are independent and one miss exposes the drafting.
double expected_rate(const Machine& m, SpeculationMode mode, int k) {
  const auto target = [&](int window) { return 1 + m.slope * (m.sequences * (window + 1) - 1); };
  if (mode == SpeculationMode::off)
    return 1 / (target(0) + m.overhead);
  const double tokens = theory::expected_tokens(m.a, k);
  if (mode == SpeculationMode::sync)
    return tokens / (k * m.c + target(k) + m.overhead);
  const double hit = std::pow(theory::chain_hit(m.a, k), m.sequences);
  const double after_hit = m.contention * std::max(target(k), (k + 1) * m.c);
  const double after_miss = m.contention * target(k) + k * m.c;
  return tokens / (hit * after_hit + (1 - hit) * after_miss + m.overhead);
}

double best_fixed_rate(const Machine& m) {
  double best = expected_rate(m, SpeculationMode::off, 0);
  for (int k = 1; k <= 16; ++k)
    for (auto mode : {SpeculationMode::sync, SpeculationMode::overlap})
      best = std::max(best, expected_rate(m, mode, k));
  return best;
}

} // namespace

TEST_CASE("The simulator's long runs are its expectation's") {
  for (double a : {0.5, 0.9})
    for (auto mode : all_modes) {
      const Machine m{a, 0.15, 0.02, 1.2};
      const int k = mode == SpeculationMode::off ? 0 : 3;
      CHECK(fixed_rate(m, mode, k, 40'000) ==
            doctest::Approx(expected_rate(m, mode, k)).epsilon(0.02));
    }
}

TEST_CASE("auto comes close to the best fixed mode and window, whatever the machine") {
  double sum = 0;
  int machines = 0;
  for (double a : {0.05, 0.3, 0.6, 0.8, 0.95})
    for (double c : {0.02, 0.1, 0.3, 0.8})
      for (double slope : {0.0, 0.02, 0.2})
        for (double contention : {1.0, 1.7})
          for (int sequences : {1, 8}) {
            Machine m{a, c, slope, contention, 0.005, 0.02, sequences};
            m.cuts_windows = sequences == 1;
            SpeculationPolicy policy = policy_on(m, chained());
            Simulator simulator{std::uint64_t(machines)};
            const auto got = run(policy, simulator, m, 4000, 3000);
            const double share = got.rate / best_fixed_rate(m);
            CAPTURE(a);
            CAPTURE(c);
            CAPTURE(slope);
            CAPTURE(contention);
            CAPTURE(sequences);
            CAPTURE(got.share[0]);
            CAPTURE(got.share[1]);
            CAPTURE(got.share[2]);
            CHECK(share > 0.93);
            sum += share;
            ++machines;
          }
  CHECK(sum / machines > 0.98);
}

TEST_CASE("auto starts in sync, with the window that its priors suggest") {
  PolicyOptions options;
  options.prior_acceptance = 0.8;
  options.prior_cost_ratio = 0.1;
  const SpeculationPolicy policy(options, unknown);
  CHECK(policy.plan().mode == SpeculationMode::sync);
  CHECK(policy.plan().window == theory::best_window_sync(0.8, 0.1, 0, options.window_limit));
  CHECK(policy.acceptance() == 0.8);
  CHECK(policy.cost_ratio() == 0.1);
}

TEST_CASE("Speculation that loses ends, and probing it costs less than 2 %") {
  for (const Machine& m :
       {Machine{0.05, 0.5, 0.0, 1.0}, Machine{0.6, 0.1, 0.3, 1.0, 0.005, 0.02, 16},
        Machine{0.3, 1.0, 0.1, 2.0}, Machine{0.0, 0.05, 0.02, 1.0}}) {
    CAPTURE(m.a);
    SpeculationPolicy policy = policy_on(m, chained());
    Simulator simulator(5);
    run(policy, simulator, m, 300, 1);
    const auto off = run(policy, simulator, m, 6000, 6000);
    CHECK(off.share[0] > 0.95);
    CHECK(off.rate > 0.98 * expected_rate(m, SpeculationMode::off, 0));
  }
}

TEST_CASE("What was left behind is not tried again at once") {
  const Machine m{.a = 0.8, .c = 0.1};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SpeculationPolicy policy = policy_on(m, chained());
    Simulator simulator(seed);
    double plain = 0;
    while (policy.plan().probes || policy.plan().mode != SpeculationMode::overlap)
      plain += run(policy, simulator, m, 1, 1).share[std::size_t(SpeculationMode::off)];
    CHECK(plain > 0); // it was tried before overlap was
    CHECK(run(policy, simulator, m, 80, 80).share[std::size_t(SpeculationMode::off)] == 0);
  }
}

TEST_CASE("Speculation comes back when drafts are good again, after a growing pause") {
  Machine m{0.02, 0.1, 0.0, 1.0};
  SpeculationPolicy policy = policy_on(m, chained());
  Simulator simulator(6);
  CHECK(run(policy, simulator, m, 400, 200).share[0] > 0.8);
  std::vector<int> probes; // rounds at which a probe of sync begins
  auto before = policy.plan().mode;
  for (int i = 0; i < 8000; ++i) {
    policy.observe(simulator.round(m, policy.plan()));
    const auto now = policy.plan().mode;
    if (now == SpeculationMode::sync && before != now)
      probes.push_back(i);
    before = now;
  }
  REQUIRE(probes.size() >= 4);
  CHECK(probes.size() < 20);
  CHECK(probes[3] - probes[2] > probes[1] - probes[0]);

  m.a = 0.9;
  const auto back = run(policy, simulator, m, 6000, 2000);
  CHECK(back.share[0] < 0.1);
}

TEST_CASE("A few probes outweigh a long memory of bad drafts") {
  // At this cost of drafting a mode change needs acceptance to be believed in.
  int rounds = 0;
  constexpr int seeds = 8;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    Machine m{0.02, 0.5, 0.0, 1.0};
    SpeculationPolicy policy = policy_on(m, chained());
    Simulator simulator(seed);
    run(policy, simulator, m, 8000, 1);
    m.a = 0.9;
    for (int streak = 0; streak < 60 && rounds < 100'000; ++rounds) { // of rounds not in `off`
      policy.observe(simulator.round(m, policy.plan()));
      streak = policy.plan().mode == SpeculationMode::off ? 0 : streak + 1;
    }
  }
  CHECK(rounds / seeds < 850);
}

TEST_CASE("Small and large batches are judged apart") {
  // Compute-bound beyond one sequence: speculation helps one client and would slow
  // eight down.
  Machine one{0.8, 0.05, 0.4, 1.0};
  Machine eight = one;
  eight.sequences = 8;
  const double off = expected_rate(eight, SpeculationMode::off, 0);
  REQUIRE(best_fixed_rate(one) > 1.2 * expected_rate(one, SpeculationMode::off, 0));
  REQUIRE(best_fixed_rate(eight) == off);

  SpeculationPolicy policy = policy_on(one, chained());
  Simulator simulator(7);
  CHECK(run(policy, simulator, one, 1000, 500).share[0] < 0.1);
  CHECK(run(policy, simulator, eight, 400, 200).share[0] > 0.75);
  CHECK(run(policy, simulator, eight, 2000, 2000).rate > 0.98 * off);
  CHECK(run(policy, simulator, one, 100, 100).share[0] < 0.2); // at once: it is remembered
}

TEST_CASE("With fewer sequences what lost among more is not tried at once, and among more it is") {
  for (const auto& [before, after] : {std::pair(8, 2), std::pair(2, 8)}) {
    Machine m{.a = 0.8, .c = 0.1};
    m.sequences = before;
    SpeculationPolicy policy = policy_on(m, chained());
    Simulator simulator(16);
    run(policy, simulator, m, 60, 1);
    m.sequences = after;
    const double off = run(policy, simulator, m, 60, 60).share[std::size_t(SpeculationMode::off)];
    CHECK((off == 0) == (after < before));
  }
}

TEST_CASE("Batches that grow and shrink all the time do not keep the policy probing") {
  Machine four{0.7, 0.1, 0.05, 1.0};
  four.sequences = 4;
  Machine five = four;
  five.sequences = 5;
  SpeculationPolicy policy = policy_on(four, chained());
  Simulator simulator(13);
  int off = 0;
  for (int i = 0; i < 4000; ++i) {
    off += policy.plan().mode == SpeculationMode::off;
    policy.observe(simulator.round(i % 2 == 0 ? four : five, policy.plan()));
  }
  CHECK(off < 200);
}

TEST_CASE("A stalled round does not change the mode for long") {
  const Machine m{0.8, 0.1, 0.0, 1.5};
  SpeculationPolicy policy = policy_on(m, chained());
  Simulator simulator(14);
  run(policy, simulator, m, 500, 1);
  int elsewhere = 0;
  for (int i = 0; i < 2000; ++i) {
    auto r = simulator.round(m, policy.plan());
    if (i % 200 == 0) {
      r.round_seconds *= 1000;
    }
    policy.observe(r);
    elsewhere += policy.plan().mode != SpeculationMode::sync;
  }
  CHECK(elsewhere < 200);
}

TEST_CASE("Rounds with prefill begin no probe and teach no times") {
  const Machine m{0.7, 0.1, 0.02, 1.0};
  SpeculationPolicy policy = policy_on(m, chained());
  Simulator simulator(8);
  for (int i = 0; i < 3000; ++i) {
    auto r = simulator.round(m, policy.plan());
    r.prefill = true;
    r.round_seconds *= 50;
    policy.observe(r);
    CHECK(policy.plan().mode == SpeculationMode::sync);
  }
  CHECK(policy.acceptance() == doctest::Approx(0.7).epsilon(0.1)); // judged positions count
  // A probe that is under way stands aside for prefill.
  while (policy.plan().mode == SpeculationMode::sync)
    policy.observe(simulator.round(m, policy.plan()));
  auto r = simulator.round(m, policy.plan());
  r.prefill = true;
  policy.observe(r);
  CHECK(policy.plan().mode == SpeculationMode::sync);
}

TEST_CASE("A mode that was asked for is kept, and so is a window") {
  const Machine m{0.1, 0.8, 0.2, 1.5};
  for (auto mode : all_modes) {
    PolicyOptions options;
    options.mode = mode;
    SpeculationPolicy adaptive = policy_on(m, options);
    options.window = 7;
    SpeculationPolicy fixed = policy_on(m, options);
    Simulator simulator(9);
    for (int i = 0; i < 500; ++i)
      for (auto* policy : {&adaptive, &fixed}) {
        CHECK(policy->plan().mode == mode);
        CHECK(policy->plan().lookahead ==
              (mode == SpeculationMode::overlap ? policy->plan().window + 1 : 0));
        policy->observe(simulator.round(m, policy->plan()));
      }
    const bool off = mode == SpeculationMode::off;
    CHECK(fixed.plan().window == (off ? 0 : 7));
    CHECK(adaptive.plan().window == (off ? 0 : 1)); // learned that longer ones lose
  }
}

TEST_CASE("Windows grow with acceptance and shrink with the cost of drafting") {
  PolicyOptions options;
  options.mode = SpeculationMode::sync;
  const auto learned = [&](const Machine& m) {
    SpeculationPolicy policy = policy_on(m, options);
    Simulator simulator(10);
    run(policy, simulator, m, 1500, 1);
    CHECK(policy.acceptance() == doctest::Approx(m.a).epsilon(0.12));
    CHECK(policy.cost_ratio() == doctest::Approx(m.c).epsilon(0.1));
    return policy.plan().window;
  };
  const int middle = learned({0.8, 0.1});
  CHECK(std::abs(middle - theory::best_window_sync(0.8, 0.1, 0, 16)) <= 1);
  CHECK(learned({0.95, 0.1}) > middle);
  CHECK(learned({0.8, 0.4}) < middle);
}

TEST_CASE("Without lookahead there is no overlap to probe") {
  PolicyOptions options;
  options.lookahead = Lookahead::none;
  const Machine m{0.9, 0.1};
  SpeculationPolicy policy = policy_on(m, options);
  Simulator simulator(11);
  CHECK(run(policy, simulator, m, 3000, 3000).share[2] == 0);
  options.mode = SpeculationMode::overlap;
  CHECK(policy_on(m, options).plan().lookahead == 0);
}

namespace {

/// Rounds of a model beside a look-up. By itself the look-up has a window now and then.
Run run_mixed(const Machine& model, double found, int rounds, int counted) {
  PolicyOptions options = chained();
  options.lookup = true;
  SpeculationPolicy policy = policy_on(model, options);
  Simulator simulator(5);
  std::mt19937_64 random(3);
  const Machine lookup{.a = 0.9, .c = 0};
  Run out;
  for (int i = 0; i < rounds; ++i) {
    Plan plan = policy.plan();
    const bool without = !plan.model;
    if (without && !std::bernoulli_distribution(found)(random))
      plan.window = 0;
    RoundObservation r = simulator.round(without ? lookup : model, plan);
    r.model = !without;
    r.looked_up = without ? r.judged : 0;
    r.looked_up_accepted = without ? r.accepted : 0;
    policy.observe(r);
    if (i >= rounds - counted)
      out.share[std::size_t(without ? SpeculationMode::off : r.mode)] += 1.0 / counted;
  }
  return out;
}

} // namespace

TEST_CASE("Where a look-up drafts beside a model, the model has to bring more than it takes") {
  const auto without = std::size_t(SpeculationMode::off);
  CHECK(run_mixed({.a = 0.5, .c = 0.9}, 0.5, 2000, 1000).share[without] > 0.9);
  CHECK(run_mixed({.a = 0.8, .c = 0.02}, 0.02, 2000, 1000).share[without] < 0.1);
}

TEST_CASE("What a look-up writes teaches nothing of the model, and costs no window anything") {
  PolicyOptions options = chained();
  options.lookup = true;
  options.mode = SpeculationMode::sync;
  const Machine m;
  SpeculationPolicy policy = policy_on(m, options);
  const int before = policy.plan().window;
  RoundObservation round;
  round.mode = SpeculationMode::sync;
  round.sequences = 1;
  round.window = 4;
  round.rows = 5;
  round.judged = round.looked_up = round.accepted = round.looked_up_accepted = 4;
  round.tokens = 5;
  round.round_seconds = 1;
  round.draft_step_seconds = 0.1;
  const double model = policy.model_acceptance();
  for (int i = 0; i < 200; ++i)
    policy.observe(round);
  CHECK(policy.model_acceptance() == model);
  CHECK(policy.acceptance() > 0.95);
  CHECK(policy.plan().window > before);
  CHECK(policy.drafting_cost(SpeculationMode::sync, 3, 0.5) ==
        doctest::Approx(3 * policy.cost_ratio()));
}

TEST_CASE("A window costs the passes of the draft that are waited for") {
  PolicyOptions options = chained();
  options.mode = SpeculationMode::overlap;
  options.prior_cost_ratio = 0.1;
  const SpeculationPolicy policy(options, unknown);
  CHECK(policy.drafting_cost(SpeculationMode::sync, 4, 0.8) == doctest::Approx(4 * 0.1));
  const double hit = policy.hit(0.8, 4); // of a chain
  CHECK(hit == doctest::Approx(std::pow(0.8, 5)));
  CHECK(policy.drafting_cost(SpeculationMode::overlap, 4, 0.8) ==
        doctest::Approx(4 * (1 - hit) * 0.1));
}

TEST_CASE("A pass that writes a block costs the same whatever window it writes") {
  Machine m;
  m.c = 0.4;
  PolicyOptions options = chained();
  options.mode = SpeculationMode::sync;
  const auto windows = [&](int block) {
    options.block = block;
    SpeculationPolicy policy = policy_on(m, options);
    RoundObservation round;
    round.mode = SpeculationMode::sync;
    round.sequences = 1;
    round.window = 4;
    round.rows = 5;
    round.tokens = 4;
    round.judged = 4;
    round.accepted = 3;
    round.round_seconds = 1.4;
    round.draft_step_seconds = m.c;
    for (int i = 0; i < 300; ++i)
      policy.observe(round);
    CHECK(policy.drafting_cost(SpeculationMode::sync, 4, 0.75) ==
          doctest::Approx(block > 0 ? 0.4 : 4 * 0.4));
    CHECK(policy.token_cost(4) == doctest::Approx(block > 0 ? 0.1 : 0.4));
    return policy.plan().window;
  };
  CHECK(windows(0) == 2);
  CHECK(windows(16) == 16); // its rows cost nothing on this machine, either
}

TEST_CASE("Windows are as long as their rows allow, by what steps of so many rows take") {
  const auto window = [](auto step) {
    PolicyOptions options = chained();
    options.mode = SpeculationMode::sync;
    options.prior_acceptance = 0.8;
    return SpeculationPolicy(options, step).plan().window;
  };
  CHECK(window([](int) { return 1.0; }) == theory::best_window_sync(0.8, 0.1, 0, 16));
  CHECK(window([](int rows) { return 1 + 0.2 * (rows - 1); }) ==
        theory::best_window_sync(0.8, 0.1, 0.2, 16));
  CHECK(window([](int rows) { return rows <= 4 ? 1.0 : 2.0; }) == 3); // a bend
}

TEST_CASE("Of windows that are as good overlap has the shortest") {
  PolicyOptions options;
  options.mode = SpeculationMode::overlap;
  options.fork_rows = 0;
  options.prior_acceptance = 0.2;
  CHECK(SpeculationPolicy(options, unknown).plan().window < 8);
}

TEST_CASE("A mode that is asked for has its own window, whatever the policy follows") {
  const Machine m{.a = 0.5, .c = 0.1};
  PolicyOptions options = chained();
  options.early_ends = true;
  SpeculationPolicy policy = policy_on(m, options);
  Simulator simulator(14);
  while (policy.plan().probes || policy.plan().window < 16) // windows of sync end early
    policy.observe(simulator.round(m, policy.plan()));
  CHECK(policy.plan().mode == SpeculationMode::sync);
  CHECK(policy.plan(SpeculationMode::sync).window == 16);
  CHECK(policy.plan(SpeculationMode::overlap).mode == SpeculationMode::overlap);
  CHECK(policy.plan(SpeculationMode::overlap).window < 16);
}

TEST_CASE("The same rounds lead to the same plans") {
  const Machine m{0.75, 0.1, 0.01, 1.1};
  SpeculationPolicy one = policy_on(m);
  SpeculationPolicy other = policy_on(m);
  Simulator simulator(12);
  for (int i = 0; i < 2000; ++i) {
    const auto plan = one.plan();
    const auto same = other.plan();
    CHECK((plan.mode == same.mode && plan.window == same.window));
    const auto r = simulator.round(m, plan);
    one.observe(r);
    other.observe(r);
  }
}

TEST_CASE("auto follows overlap with forks where it is clearly faster than sync") {
  const Machine m{.a = 0.8, .c = 0.15, .guess = 0.6};
  SpeculationPolicy policy = policy_on(m);
  Simulator simulator(13);
  const Run got = run(policy, simulator, m, 4000, 3000);
  CHECK(got.share[std::size_t(SpeculationMode::overlap)] > 0.9);
  CHECK(got.rate >
        1.15 * expected_rate(m, SpeculationMode::sync, theory::best_window_sync(m.a, m.c, 0, 16)));
}

TEST_CASE("Rows stand beside windows as far as they pay, and bring what was expected") {
  for (const double slope : {0.0, 0.004, 0.4}) {
    CAPTURE(slope);
    const Machine m{.a = 0.6, .c = 0.02, .slope = slope};
    double rates[2] = {};
    int rows = 0;
    for (const int most : {0, 48}) {
      PolicyOptions options;
      options.mode = SpeculationMode::sync;
      options.tree_rows_max = most;
      SpeculationPolicy policy = policy_on(m, options);
      Simulator simulator(21);
      double tokens = 0;
      double seconds = 0;
      for (int i = 0; i < 4000; ++i) {
        const Plan plan = policy.plan();
        const RoundObservation round = simulator.round(m, plan);
        policy.observe(round);
        // The prior's odds: 0.28, 0.12, ...
        policy.observe_guess(i % 25 < 7 ? 0 : i % 25 < 10 ? 1 : -1);
        tokens += i < 1000 ? 0 : round.tokens;
        seconds += i < 1000 ? 0 : round.round_seconds;
        rows = plan.tree_rows;
      }
      rates[most > 0] = tokens / seconds;
    }
    CHECK(rates[1] > 0.99 * rates[0]);
    if (slope == 0)
      CHECK(rows > 24);
    if (slope <= 0.004)
      CHECK(rates[1] > 1.08 * rates[0]);
    else
      CHECK(rows == 0);
  }
}
