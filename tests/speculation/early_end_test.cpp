// Windows that end where the draft was not sure of a token.
#include "speculation/early_end.hpp"
#include "speculation/policy.hpp"
#include "tests/speculation/planner_world.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>

using namespace paceline;
using namespace paceline::testing;
using sampling::Guesses;

namespace {

constexpr double chance_if_sure = 0.95;
constexpr double chance_if_not = 0.4;

Guesses guesses(bool sure) {
  Guesses made;
  made.count = 1;
  made.margin = sure ? 4.0f : 0.2f;
  return made;
}

EarlyEnd early_end(double least) {
  EarlyEnd early;
  early.least = least;
  early.odds.acceptance = 0.7;
  early.odds.by_margin[sampling::margin_class(guesses(true).margin)] = chance_if_sure;
  early.odds.by_margin[sampling::margin_class(guesses(false).margin)] = chance_if_not;
  return early;
}

/// Draws as long as the planner wants to, with these guesses. Returns the tokens drawn.
int drawn(const std::vector<bool>& sure, const EarlyEnd& early, int lookahead = 0) {
  PlannerWorld world;
  Frontier at = world.frontier(1, {1, 2, 3}, 4, lookahead);
  at.early_end = early;
  world.planner.take({at});
  for (const bool each : sure) {
    DraftPass pass = world.planner.plan();
    if (pass.parts.empty())
      break;
    PlannerWorld::compute(pass, 5, guesses(each));
  }
  CHECK(world.planner.plan().parts.empty());
  CHECK(at.chain->settled(at.chain->window_end())); // nobody waits for more
  return at.chain->drawn() - at.length();
}

/// One sequence and a pair whose draft is sure of every other token, by luck; the time of a plain
/// step is 1.
class UnevenDraft {
public:
  /// between: what a token takes beside its pass and its row.
  UnevenDraft(double c, double row, std::uint64_t seed, double between = 0)
      : c_(c), row_(row), between_(between), random_(seed) {}

  double step(int rows) const { return 1 + row_ * (rows - 1); }
  /// Plays a round as the plan says. Returns what it brought.
  RoundObservation round(const Plan& plan, const EarlyEnd& early) {
    Chain chain(1);
    chain.begin(0, plan.window, plan.window);
    if (plan.window > 0)
      chain.bind(plan.window);
    RoundObservation round;
    bool accepts = true;
    double reached = 1;
    while (chain.drawn() < plan.window && !early.is_before(chain.drawn(), chain, 0)) {
      const bool sure = std::bernoulli_distribution(0.5)(random_);
      chain.put(chain.drawn(), 5, nullptr, guesses(sure));
      reached *= early.odds.accepted(guesses(sure));
      if (early.least > 0)
        round.expected = round.expected.value_or(0) + reached;
      if (!accepts)
        continue;
      accepts = std::bernoulli_distribution(sure ? chance_if_sure : chance_if_not)(random_);
      ++round.judged;
      round.accepted += accepts;
      round.by_margin.add(guesses(sure).margin, accepts);
    }
    round.mode = SpeculationMode::sync;
    round.sequences = 1;
    round.window = chain.drawn();
    round.windows = {round.window};
    round.rows = round.window + 1;
    round.tokens = round.accepted + 1;
    round.draft_step_seconds = c_;
    round.round_seconds = step(round.rows) + round.window * (c_ + between_);
    return round;
  }

private:
  double c_;
  double row_;
  double between_;
  std::mt19937_64 random_;
};

/// Returns the tokens a second of many rounds in `sync`.
double rate(UnevenDraft pair, std::optional<int> window, bool early_ends) {
  PolicyOptions options;
  options.mode = SpeculationMode::sync;
  options.window = window;
  options.early_ends = early_ends;
  SpeculationPolicy policy(options, [&](int rows) { return pair.step(rows); });
  double tokens = 0;
  double seconds = 0;
  for (int i = 0; i < 20'000; ++i) {
    const RoundObservation round = pair.round(policy.plan(), policy.early_end());
    policy.observe(round);
    tokens += round.tokens;
    seconds += round.round_seconds;
  }
  return tokens / seconds;
}

} // namespace

TEST_CASE("a window ends behind a token that is likely to be rejected, and no sooner") {
  CHECK(drawn({true, true, true, true}, early_end(0.4)) == 4);
  CHECK(drawn({true, false, true, true}, early_end(0.4)) == 2);
  CHECK(drawn({true, false, true, true}, early_end(0.2)) == 4);
  CHECK(drawn({false, false, false, false}, early_end(0)) == 4);
}

TEST_CASE("a window's first token is drawn whatever it brings") {
  CHECK(drawn({true, true, true, true}, early_end(0.99)) == 1);
}

TEST_CASE("a token without guesses, or not drawn yet, is like all others") {
  Chain chain(1);
  chain.begin(3, 8, 8);
  chain.bind(8);
  chain.put(3, 5, nullptr); // nobody guessed
  CHECK_FALSE(early_end(0.48).is_before(4, chain, 3));
  CHECK(early_end(0.50).is_before(4, chain, 3));
  CHECK_FALSE(early_end(0.34).is_before(5, chain, 3)); // 4 is under way
  CHECK(early_end(0.35).is_before(5, chain, 3));
}

TEST_CASE("a pass behind draws nothing that is likely to be in vain") {
  for (const bool sure : {true, false}) {
    PlannerWorld world;
    Frontier at = world.frontier(1, {1, 2, 3}, 4, 0);
    at.early_end = early_end(0.25);
    world.planner.take({at});
    DraftPass pass = world.planner.plan();
    PlannerWorld::compute(pass, 5, guesses(sure));
    pass = world.planner.plan();
    REQUIRE(pass.parts.size() == 1);
    CHECK(world.planner.plan_behind(pass).parts.size() == (sure ? 1 : 0)); // 0.4 * 0.7 * 0.7
  }
}

namespace {

/// Returns what windows that end early bring over the best window of one length.
double gain_of(double c, double row, double between) {
  double best = 0;
  for (int window = 1; window <= 8; ++window)
    best = std::max(best, rate({c, row, 1, between}, window, false));
  return rate({c, row, 2, between}, {}, true) / best;
}

} // namespace

TEST_CASE("windows that end early bring more than the best window of one length") {
  for (const double c : {0.1, 0.2, 0.4})
    for (const double row : {0.0, 0.1}) {
      CAPTURE(c);
      CAPTURE(row);
      CHECK(gain_of(c, row, 0) > 1.02);
    }
}

TEST_CASE("windows that end early learn what a token takes beside its pass and its row") {
  CHECK(gain_of(0.01, 0, 0.1) > 1.03);
  CHECK(gain_of(0.01, 0, 0.3) > 1.03);
  CHECK(gain_of(0.1, 0.1, 0.2) > 1.03);
  CHECK(gain_of(0.4, 0.1, 0.2) > 0.99); // where two tokens hardly pay
}

TEST_CASE("windows of a fixed length never end early, nor those of a draft that cannot") {
  const auto least = [](std::optional<int> window, bool early_ends) {
    PolicyOptions options;
    options.mode = SpeculationMode::sync;
    options.window = window;
    options.early_ends = early_ends;
    UnevenDraft pair(0.2, 0, 3);
    SpeculationPolicy policy(options, [&](int rows) { return pair.step(rows); });
    for (int i = 0; i < 100; ++i)
      policy.observe(pair.round(policy.plan(), {}));
    return policy.early_end().least;
  };
  CHECK(least({}, true) > 0.1);
  CHECK(least({}, true) < 0.8);
  CHECK(least(4, true) == 0);
  CHECK(least({}, false) == 0);
}

TEST_CASE("a probe ends windows early from its first round on") {
  PolicyOptions options;
  options.lookahead = Lookahead::chain;
  options.early_ends = true;
  UnevenDraft pair(0.4, 0, 3);
  SpeculationPolicy policy(options, [&](int rows) { return pair.step(rows); });
  int probed = 0;
  for (int i = 0; i < 4'000; ++i) {
    const Plan plan = policy.plan();
    const bool waits = plan.mode == SpeculationMode::sync;
    const EarlyEnd early = waits ? policy.early_end() : EarlyEnd();
    RoundObservation round = pair.round(plan, early);
    round.mode = plan.mode;
    if (!waits)
      round.round_seconds = 1; // Drafting is hidden, so overlap wins.
    policy.observe(round);
    if (i < 1'000 || !waits)
      continue;
    CHECK(plan.probes);
    CHECK(early.least > 0);
    ++probed;
  }
  CHECK(probed > 10);
}
