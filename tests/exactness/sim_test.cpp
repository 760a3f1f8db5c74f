// The runtime's speed on simulated devices, against theory: what actors, waiting and policy cost
// is all that could make a difference.
#include "paceline/engine.hpp"
#include "sampling/theory.hpp"
#include "tests/support/effort.hpp"
#include "tools/overlap_model.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <optional>

using namespace paceline;
using testing::sanitized;
namespace theory = paceline::sampling::theory;

namespace {

// Chen et al. 2023, section 4.
constexpr double target_ms = 14.1;
constexpr double draft_ms = 1.8;
constexpr double acceptance = 0.8;
constexpr double cost_ratio = draft_ms / target_ms;

/// Some ten thousand rounds: the standard error of their mean is below 0.6 %, so that 3 % are
/// missed by chance for fewer than one choice of seeds in a million.
constexpr int tokens = 40'000;
constexpr double tolerance = 0.03;

struct Measured {
  double tokens_per_second = 0;
  double decode_ms = 0;
  double rounds = 0;
  double hits = 0;
};

struct Pair {
  double acceptance = ::acceptance;
  double draft_ms = ::draft_ms;
};

Measured measure(SpeculationMode mode, std::optional<int> window,
                 Lookahead lookahead = Lookahead::chain, const Pair& pair = {}) {
  const bool forks = lookahead == Lookahead::fork;
  EngineOptions options;
  options.target = forks ? "scripted:vocabulary=64,memory=0,seed=1,ranked=1"
                         : "scripted:vocabulary=4,memory=0,seed=1";
  options.drafters = {fmt::format("{},acceptance={}", options.target, pair.acceptance)};
  options.lookahead = lookahead;
  options.devices = {"sim:14.1ms"};
  options.draft_devices = {fmt::format("sim:{}ms", pair.draft_ms)};
  options.speculation = mode;
  options.window = window;
  options.max_num_seqs = 1;
  options.max_model_len = tokens + 1;
  options.virtual_time = true;
  auto engine = Engine::open(options);
  REQUIRE(engine);

  Request request;
  request.prompt_tokens = {0};
  request.max_tokens = tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 1;
  request.sampling.seed = 7;
  request.verify = VerifyRule::rejection;
  const auto completion = engine->complete(request);
  REQUIRE(completion);
  REQUIRE(completion->tokens.size() == std::size_t(tokens));
  const double seconds = completion->end.timing.decode_seconds;
  const SpeculationStats& stats = completion->end.speculation;
  return {(tokens - 1) / seconds, seconds * 1000, double(stats.rounds - 1),
          double(stats.lookahead_hits + stats.fork_hits)};
}

double per_second(double tokens_per_target_step) {
  return 1000 * tokens_per_target_step / target_ms;
}

} // namespace

// Their clock is virtual, so a sanitizer would change nothing but the time that they take.
TEST_SUITE_BEGIN("speed" * doctest::skip(sanitized));

TEST_CASE("on sim devices sync is as fast as its formula") {
  for (int window = 1; window <= 6; ++window) {
    CAPTURE(window);
    const Measured measured = measure(SpeculationMode::sync, window);
    const double formula = per_second(theory::sync_rate(acceptance, window, cost_ratio, 1));
    CHECK(measured.tokens_per_second == doctest::Approx(formula).epsilon(tolerance));
    // Luck aside: the first and last windows may be shorter.
    const double round_ms = target_ms + window * draft_ms;
    CHECK(measured.decode_ms == doctest::Approx(measured.rounds * round_ms).epsilon(0.002));
    MESSAGE("sync, K = ", window, ": ", measured.tokens_per_second / formula, " of the formula");
  }
}

namespace {

/// A window that takes longer than it is worth is cut, so that overlap may be faster than a formula
/// that has it wait for all of each.
void check_at_least(double measured, double expected, double most = 1.1) {
  CHECK(measured > (1 - tolerance) * expected);
  CHECK(measured < most * expected);
}

} // namespace

TEST_CASE("on sim devices overlap is as fast as its ideal where a lookahead fits under a pass") {
  for (int window = 1; window <= 6; ++window) {
    CAPTURE(window);
    const Measured measured = measure(SpeculationMode::overlap, window);
    const double hit = theory::chain_hit(acceptance, window);
    const double ideal = per_second(theory::overlap_rate(acceptance, window, cost_ratio, 1, hit));
    check_at_least(measured.tokens_per_second, ideal);
    const double misses = measured.rounds - measured.hits;
    const double time_ms = measured.rounds * target_ms + misses * window * draft_ms;
    CHECK(measured.decode_ms < 1.002 * time_ms);
    MESSAGE("overlap, K = ", window, ": ", measured.tokens_per_second / ideal, " of the ideal");
  }
}

TEST_CASE("on sim devices forks make overlap as fast as its ideal at their hit rate") {
  for (const int window : {2, 4, 5}) {
    CAPTURE(window);
    const Measured measured = measure(SpeculationMode::overlap, window, Lookahead::fork);
    const double hit = measured.hits / measured.rounds;
    CHECK(hit > 1.5 * theory::chain_hit(acceptance, window));
    const double tokens_per_round = theory::expected_tokens(acceptance, window);
    const double ideal = per_second(tokens_per_round / (1 + (1 - hit) * window * cost_ratio));
    check_at_least(measured.tokens_per_second, ideal);
    const double sync = per_second(theory::sync_rate(acceptance, window, cost_ratio, 1));
    CHECK(measured.tokens_per_second > 1.1 * sync);
    MESSAGE("forks, K = ", window, ": hit rate ", hit, ", ", measured.tokens_per_second / ideal,
            " of the ideal, ", measured.tokens_per_second / sync, " of sync");
  }
}

TEST_CASE("on sim devices overlap is as fast as a discrete-event model where it does not fit") {
  for (const int window : {7, 8, 10}) {
    CAPTURE(window);
    const Measured measured = measure(SpeculationMode::overlap, window);
    const tools::OverlapModel model{
        .target_ms = target_ms, .draft_ms = draft_ms, .acceptance = acceptance, .window = window};
    const double expected = tools::simulate(model, 200'000, 1).tokens_per_second;
    check_at_least(measured.tokens_per_second, expected, 1.4);
    MESSAGE("overlap, K = ", window, ": ", measured.tokens_per_second / expected, " of the model");
  }
}

TEST_CASE("on sim devices auto finds the best mode of a weak draft, which leads by a little") {
  for (const double cost : {0.1, 0.2}) {
    CAPTURE(cost);
    const Pair weak{0.2, cost * target_ms};
    const auto rate = [&](SpeculationMode mode, std::optional<int> window) {
      return measure(mode, window, Lookahead::chain, weak).tokens_per_second;
    };
    const double best = std::max(
        {per_second(1), rate(SpeculationMode::sync, 1), rate(SpeculationMode::overlap, 1)});
    const double found = rate(SpeculationMode::automatic, {}) / best;
    CHECK(found > 0.985);
    MESSAGE("auto, c = ", cost, ": ", found, " of the best");
  }
}

TEST_SUITE_END();
