#include "apps/bench/modes.hpp"

#include "apps/output.hpp"
#include "apps/statistics.hpp"

namespace paceline::apps {
namespace {

/// The workload once, in one mode.
struct Pass {
  int prompts = 0;
  int tokens = 0;
  int decoded = 0; ///< Tokens after each prompt's first.
  int windows = 0;
  double decode_seconds = 0;
  double first_token_seconds = 0;
  SpeculationStats stats; ///< Counters only.
  Metrics before;
  Metrics after;

  void add(const Finished& end) {
    prompts += 1;
    tokens += end.usage.completion_tokens;
    decoded += end.usage.completion_tokens - 1;
    windows += end.speculation.window;
    decode_seconds += end.timing.decode_seconds;
    first_token_seconds += end.timing.time_to_first_token_seconds;
    stats.judged += end.speculation.judged;
    stats.accepted += end.speculation.accepted;
    stats.rounds += end.speculation.rounds;
    stats.lookahead_hits += end.speculation.lookahead_hits;
    stats.fork_hits += end.speculation.fork_hits;
    stats.lookahead_rounds += end.speculation.lookahead_rounds;
  }
  double round_seconds() const { return after.decode_round_seconds - before.decode_round_seconds; }
  double overhead_seconds() const {
    return round_seconds() - (after.decode_lane_seconds - before.decode_lane_seconds);
  }
};

double ratio(double a, double b) {
  return b > 0 ? a / b : 0;
}

Result<Pass> run_pass(Engine& engine, const ModesPlan& plan, SpeculationMode mode) {
  Pass pass;
  pass.before = engine.metrics();
  Request request = plan.request;
  request.speculation = mode;
  request.sampling.seed = plan.request.sampling.seed.value_or(0);
  for (const std::string& prompt : plan.prompts) {
    request.prompt = prompt;
    ++*request.sampling.seed;
    const auto answer = engine.complete(request);
    if (!answer)
      return tl::unexpected(answer.error());
    if (answer->end.error)
      return tl::unexpected(*answer->end.error);
    pass.add(answer->end);
  }
  pass.after = engine.metrics();
  return pass;
}

ModeResult figures(SpeculationMode mode, const Pass& pass) {
  const Metrics& a = pass.before;
  const Metrics& b = pass.after;
  ModeResult f;
  f.mode = mode;
  f.tokens_per_second = ratio(pass.decoded, pass.decode_seconds);
  f.acceptance_rate = pass.stats.acceptance_rate();
  f.tokens_per_round = tokens_per_round(pass.stats, pass.tokens);
  f.window = ratio(pass.windows, pass.prompts);
  f.lookahead_hit_rate = pass.stats.lookahead_hit_rate();
  f.overlap_ratio = ratio(b.overlapped_seconds - a.overlapped_seconds,
                          b.draft_busy_seconds - a.draft_busy_seconds);
  f.time_to_first_token_seconds = ratio(pass.first_token_seconds, pass.prompts);
  f.overhead_seconds_per_round = ratio(pass.overhead_seconds(), double(b.rounds - a.rounds));
  f.overhead_share = ratio(pass.overhead_seconds(), pass.round_seconds());
  return f;
}

/// The median of every figure.
ModeResult summary(const std::vector<ModeResult>& passes) {
  const auto middle = [&](double ModeResult::*figure) {
    std::vector<double> values;
    for (const ModeResult& pass : passes)
      values.push_back(pass.*figure);
    return values;
  };
  ModeResult result = passes.front();
  for (double ModeResult::*figure :
       {&ModeResult::tokens_per_second, &ModeResult::acceptance_rate, &ModeResult::tokens_per_round,
        &ModeResult::window, &ModeResult::lookahead_hit_rate, &ModeResult::overlap_ratio,
        &ModeResult::time_to_first_token_seconds, &ModeResult::overhead_seconds_per_round,
        &ModeResult::overhead_share})
    result.*figure = median(middle(figure));
  result.spread = spread(middle(&ModeResult::tokens_per_second));
  return result;
}

} // namespace

Result<std::vector<ModeResult>> measure_modes(Engine& engine, const ModesPlan& plan,
                                              const std::function<void(double)>& progress) {
  std::vector<std::vector<ModeResult>> passes(plan.modes.size());
  const double all = double(plan.repetitions) * double(plan.modes.size());
  for (int repetition = 0; repetition < plan.repetitions; ++repetition)
    for (std::size_t i = 0; i < plan.modes.size(); ++i) {
      progress((repetition * double(plan.modes.size()) + double(i)) / all);
      const auto pass = run_pass(engine, plan, plan.modes[i]);
      if (!pass)
        return tl::unexpected(pass.error());
      passes[i].push_back(figures(plan.modes[i], *pass));
    }
  std::vector<ModeResult> results;
  for (const auto& mode : passes)
    results.push_back(summary(mode));
  return results;
}

} // namespace paceline::apps
