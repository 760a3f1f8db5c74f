#include "apps/laboratory/bench/modes.hpp"

#include "apps/console/lookups.hpp"
#include "apps/console/output.hpp"
#include "apps/console/session.hpp"
#include "apps/console/statistics.hpp"

#include <algorithm>
#include <iterator>

namespace paceline::apps {
namespace {

/// One decoding of the workload in one mode.
struct Pass {
  int prompts = 0;
  int tokens = 0;
  int decoded = 0; ///< Tokens after each prompt's first.
  int windows = 0;
  std::map<std::string, int> chosen;
  double decode_seconds = 0;
  double first_token_seconds = 0;
  SpeculationStats stats; ///< Counters only.
  double rounds = 0;
  double round_seconds = 0;
  double lane_seconds = 0; ///< Part of the rounds' time in which some lane worked for them.
  double drafting_seconds = 0;
  double overlapped_seconds = 0;

  void add(const Finished& end) {
    prompts += 1;
    tokens += end.usage.completion_tokens;
    decoded += end.usage.completion_tokens - 1;
    windows += end.speculation.window;
    chosen[to_string(end.speculation.mode)] += 1;
    decode_seconds += end.timing.decode_seconds;
    first_token_seconds += end.timing.time_to_first_token_seconds;
    stats.judged += end.speculation.judged;
    stats.accepted += end.speculation.accepted;
    stats.rounds += end.speculation.rounds;
    stats.lookahead_hits += end.speculation.lookahead_hits;
    stats.fork_hits += end.speculation.fork_hits;
    stats.lookahead_rounds += end.speculation.lookahead_rounds;
  }
  void add(const Metrics& before, const Metrics& after) {
    rounds += double(after.rounds - before.rounds);
    round_seconds += after.decode_round_seconds - before.decode_round_seconds;
    lane_seconds += after.decode_lane_seconds - before.decode_lane_seconds;
    drafting_seconds += after.draft_busy_seconds - before.draft_busy_seconds;
    overlapped_seconds += after.overlapped_seconds - before.overlapped_seconds;
  }
};

/// Decodes prompt number `index` in one mode.
Result<void> run_prompt(Engine& engine, const ModesPlan& plan, std::size_t index,
                        SpeculationMode mode, int repetition, Pass& pass) {
  Request request = plan.request;
  request.prompt = plan.prompts[index];
  request.draft_scope = measured_scope(to_string(mode), repetition);
  request.speculation = mode;
  request.sampling.seed = plan.request.sampling.seed.value_or(0) + 1 + index;
  const Metrics before = engine.metrics();
  const auto answer = answer_of(engine, request);
  if (!answer)
    return tl::unexpected(answer.error());
  pass.add(answer->end);
  pass.add(before, engine.metrics());
  return {};
}

ModeResult figures(SpeculationMode mode, const Pass& pass) {
  ModeResult f;
  f.mode = mode;
  f.chosen = pass.chosen;
  f.tokens_per_second = ratio(pass.decoded, pass.decode_seconds);
  f.acceptance_rate = pass.stats.acceptance_rate();
  f.tokens_per_round = tokens_per_round(pass.stats, pass.tokens);
  f.window = ratio(pass.windows, pass.prompts);
  f.lookahead_hit_rate = pass.stats.lookahead_hit_rate();
  f.hits_per_round =
      ratio(double(pass.stats.lookahead_hits + pass.stats.fork_hits), double(pass.stats.rounds));
  f.overlap_ratio = ratio(pass.overlapped_seconds, pass.drafting_seconds);
  f.time_to_first_token_seconds = ratio(pass.first_token_seconds, pass.prompts);
  const double overhead = pass.round_seconds - pass.lane_seconds;
  f.overhead_seconds_per_round = ratio(overhead, pass.rounds);
  f.overhead_share = ratio(overhead, pass.round_seconds);
  return f;
}

/// Returns the median of every figure.
ModeResult summary(const std::vector<ModeResult>& passes) {
  const auto middle = [&](double ModeResult::*figure) {
    std::vector<double> values;
    std::ranges::transform(passes, std::back_inserter(values), figure);
    return values;
  };
  ModeResult result = passes.front();
  for (double ModeResult::*figure :
       {&ModeResult::tokens_per_second, &ModeResult::acceptance_rate, &ModeResult::tokens_per_round,
        &ModeResult::window, &ModeResult::lookahead_hit_rate, &ModeResult::hits_per_round,
        &ModeResult::overlap_ratio, &ModeResult::time_to_first_token_seconds,
        &ModeResult::overhead_seconds_per_round, &ModeResult::overhead_share})
    result.*figure = median(middle(figure));
  result.spread = spread(middle(&ModeResult::tokens_per_second));
  result.chosen.clear();
  for (const ModeResult& pass : passes)
    for (const auto& [mode, count] : pass.chosen)
      result.chosen[mode] += count;
  return result;
}

} // namespace

Result<std::vector<ModeResult>> measure_modes(Engine& engine, Engine* beside, const ModesPlan& plan,
                                              const std::function<void(double)>& progress) {
  struct Run {
    Engine& engine;
    SpeculationMode mode;
  };
  std::vector<Run> runs;
  for (const SpeculationMode mode : plan.modes)
    runs.push_back({engine, mode});
  if (beside)
    runs.push_back({*beside, SpeculationMode::off});
  const std::size_t modes = runs.size();
  std::vector<std::vector<ModeResult>> results(modes);
  const double all = double(plan.repetitions) * double(plan.prompts.size());
  for (int repetition = 0; repetition < plan.repetitions; ++repetition) {
    std::vector<Pass> passes(modes);
    for (std::size_t prompt = 0; prompt < plan.prompts.size(); ++prompt) {
      progress((repetition * double(plan.prompts.size()) + double(prompt)) / all);
      for (std::size_t turn = 0; turn < modes; ++turn) {
        const std::size_t i = (prompt + turn) % modes; // The modes take turns at being first.
        const auto ran =
            run_prompt(runs[i].engine, plan, prompt, runs[i].mode, repetition, passes[i]);
        if (!ran)
          return tl::unexpected(ran.error());
      }
    }
    for (std::size_t i = 0; i < modes; ++i)
      results[i].push_back(figures(runs[i].mode, passes[i]));
  }
  std::vector<ModeResult> summaries;
  std::ranges::transform(results, std::back_inserter(summaries), summary);
  return summaries;
}

} // namespace paceline::apps
