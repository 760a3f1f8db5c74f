#include "tests/simulation/workload.hpp"

#include "models/synthetic/scripted_rows.hpp"
#include "sampling/rules.hpp"
#include "sampling/stop.hpp"
#include "tests/exactness/telling_constraint.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;

constexpr int vocabulary = 8;

class Draw {
public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  /// Draws from low to high, both included.
  int between(int low, int high) { return low + int(random_() % std::uint64_t(high - low + 1)); }
  bool chance(double p) { return double(random_() >> 11) * 0x1p-53 < p; }
  base::Duration between(base::Duration low, base::Duration high) {
    const double u = double(random_() >> 11) * 0x1p-53;
    return low + base::from_seconds(base::seconds(high - low) * u);
  }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[random_() % choices.size()];
  }

private:
  std::mt19937_64 random_;
};

sampling::Warping draw_warping(Draw& draw) {
  sampling::Warping warping;
  warping.temperature = draw.one_of({0.0f, 0.0f, 0.7f, 1.0f, 1.3f});
  if (draw.chance(0.2))
    warping.top_k = draw.between(2, 6);
  if (draw.chance(0.2))
    warping.top_p = 0.8f;
  if (draw.chance(0.2))
    warping.repetition_penalty = 1.2f;
  if (draw.chance(0.2))
    warping.presence_penalty = 0.5f;
  if (draw.chance(0.2))
    warping.frequency_penalty = 0.3f;
  return warping;
}

Job draw_job(Draw& draw, std::uint64_t id, const std::vector<TokenId>& common) {
  Job job;
  if (draw.chance(0.5))
    job.prompt.assign(common.begin(), common.begin() + draw.between(1, int(common.size())));
  for (int more = draw.between(1, 12); more > 0; --more)
    job.prompt.push_back(draw.between(0, vocabulary - 1));
  speculation::SequenceSpec& spec = job.spec;
  spec.id = id;
  spec.prompt_tokens = int(job.prompt.size());
  spec.max_tokens = draw.between(20, 60);
  if (draw.chance(0.2)) // more than pages are granted for at first
    spec.max_tokens = draw.between(70, 110);
  else if (draw.chance(0.1))
    spec.max_tokens = draw.between(0, 3);
  if (draw.chance(0.15))
    spec.end_of_text = {draw.between(0, vocabulary - 1)};
  spec.warping = draw_warping(draw);
  spec.rule = draw.one_of({sampling::Rule::coupled, sampling::Rule::coupled,
                           sampling::Rule::rejection, sampling::Rule::match});
  spec.noise = {std::uint64_t(draw.between(0, 1 << 30)), 0};
  spec.prompt_logprobs = spec.max_tokens == 0 || draw.chance(0.1);
  if (draw.chance(0.1))
    spec.top_logprobs = 1;
  if (draw.chance(0.3))
    spec.speculation = draw.one_of({SpeculationMode::off, SpeculationMode::sync,
                                    SpeculationMode::overlap, SpeculationMode::overlap});
  if (draw.chance(0.2))
    spec.window = draw.between(1, 6);
  if (draw.chance(0.2)) // three words, as the scripted tokenizer writes them
    job.stop.push_back(" " + std::to_string(draw.between(0, vocabulary - 1)) + " " +
                       std::to_string(draw.between(0, vocabulary - 1)) + " " +
                       std::to_string(draw.between(0, vocabulary - 1)));
  job.arrival = draw.chance(0.5) ? 0ns : draw.between(0ms, 300ms);
  if (draw.chance(0.1))
    spec.deadline = draw.between(5ms, 600ms);
  if (draw.chance(0.15))
    job.cancelled_at = draw.between(0ms, 500ms);
  job.cancelled_twice = draw.chance(0.5);
  return job;
}

/// A model's warped distribution after `tokens`.
std::vector<float> warped_row(const models::ScriptedOptions& model,
                              const speculation::SequenceSpec& spec,
                              std::span<const TokenId> tokens, sampling::WarpScratch& scratch) {
  std::vector<float> logits;
  for (const double p : models::scripted_row(model, tokens))
    logits.push_back(p > 0 ? float(std::log(p)) : -std::numeric_limits<float>::infinity());
  std::vector<float> row(logits.size());
  if (!sampling::warp(logits, model.vocabulary, spec.warping,
                      {tokens, std::size_t(spec.prompt_tokens), {}}, scratch, row))
    throw std::logic_error("a scripted row is no distribution");
  return row;
}

Workload draw_local_workload(std::uint64_t seed) {
  Draw draw(seed ^ 0x776f726b);
  Workload w;
  w.target = {.vocabulary = vocabulary, .memory = draw.one_of({2, 48}), .seed = seed % 16};
  w.acceptance = draw.one_of({0.5, 0.7, 0.9, 0.97});
  w.max_num_seqs = draw.between(1, 5);
  w.max_open = draw.chance(0.1) ? draw.between(1, 4) : 64;
  w.max_model_len = 160;
  w.page_tokens = draw.one_of({2, 4, 8});
  const int pages_each = w.max_model_len / w.page_tokens + 2;
  w.pages = std::size_t(draw.chance(0.4) ? pages_each * draw.between(4, 9) / 4
                                         : pages_each * (w.max_num_seqs + 1));
  w.prefill_chunk = draw.one_of({4, 16, 64});
  w.mode = draw.one_of({SpeculationMode::automatic, SpeculationMode::sync, SpeculationMode::overlap,
                        SpeculationMode::overlap});
  if (draw.chance(0.3))
    w.window = draw.between(1, 6);
  w.faults.stall_patience = draw.one_of({500ms, 1000ms, 10'000ms});
  w.faults.restarts_max = draw.one_of({2, 100, 100, 100});
  w.faults.recomputations_max = draw.one_of({1, 5, 5, 5});
  w.target_step = draw.between(3ms, 20ms);
  w.draft_step = draw.between(300us, draw.chance(0.2) ? 20ms : 3ms);
  std::vector<TokenId> common;
  for (int i = 0; i < 24; ++i)
    common.push_back(draw.between(0, vocabulary - 1));
  const int jobs = draw.between(4, 9);
  for (int i = 0; i < jobs; ++i)
    w.jobs.push_back(draw_job(draw, std::uint64_t(i) + 1, common));
  w.queues = draw.chance(0.5);
  w.reserve = draw.chance(0.5);
  w.scheduling =
      draw.one_of({SchedulingPolicy::fcfs, SchedulingPolicy::priority, SchedulingPolicy::deadline});
  w.batching =
      draw.one_of({Batching::hybrid, Batching::hybrid, Batching::prefill_first, Batching::request});
  w.row_budget = draw.one_of({0, 0, 1, 24});
  w.time_between_tokens = draw.one_of({0ms, 0ms, 10ms, 100ms});
  for (Job& job : w.jobs) {
    job.spec.priority = draw.between(-2, 2);
    job.spec.client = std::uint64_t(draw.between(1, 3));
  }
  w.q_rows = draw.one_of({7, 32, 1024, 1024});
  if (draw.chance(0.25)) {
    w.words = {"a", "b", "ab", "c", "d", "bcd", "e", "f"};
    w.draft_words = {"b", "x", "a", "c", "y", "e", "d", "fe", "z"};
  }
  if (!w.reserve && draw.chance(0.5))
    w.stages = draw.between(2, 4);
  w.looks_up = draw.chance(0.3);
  for (Job& job : w.jobs)
    if (w.looks_up) {
      job.spec.lookup_drafts = draw.chance(0.8);
      job.spec.model_drafts = !job.spec.lookup_drafts || draw.chance(0.8);
    }
  w.steady = draw.chance(0.5);
  const int weights[] = {1, draw.between(1, 3), draw.between(1, 100)}; // of the three clients
  for (Job& job : w.jobs) {
    job.spec.client_weight = weights[job.spec.client - 1];
    if (w.steady && w.scheduling == SchedulingPolicy::deadline && draw.chance(0.5))
      job.spec.deadline = draw.between(5ms, 600ms);
  }
  if (!w.reserve && draw.chance(0.3))
    w.shards = draw.between(2, 3);
  for (Job& job : w.jobs)
    if (draw.chance(0.2))
      job.spec.warping.constraint =
          std::make_shared<TellingConstraint>(w.target, job.spec.noise.seed);
  w.target.recurrent = w.stages == 1 && w.shards == 1 && draw.chance(0.4);
  if (!w.target.recurrent && w.prefill_chunk >= 16)
    w.tree_rows = draw.one_of({0, 3, 12, 48});
  return w;
}

/// What a draft on a node cannot do is left out.
void move_draft(Workload& w) {
  w.words.clear();
  w.draft_words.clear();
  w.looks_up = false;
  for (Job& job : w.jobs)
    job.spec.lookup_drafts = job.spec.model_drafts = true;
  w.machines.push_back({.drafts = true});
}

/// Moves at least one stage behind the first.
void move_stages(Workload& w, Draw& draw) {
  w.shards = 1;
  w.stages = draw.between(2, 4);
  w.target.recurrent = false;
  w.tree_rows = 0;
  const int sure = draw.between(1, w.stages - 1);
  std::vector<int> moved;
  for (int stage = 1; stage < w.stages; ++stage) {
    if (stage != sure && draw.chance(0.5))
      continue;
    moved.push_back(stage);
    if (w.machines.empty() || draw.chance(0.8)) // else one machine has several
      w.machines.push_back({});
    w.machines.back().stages.push_back(stage);
  }
  if (draw.chance(0.5))
    w.machines.push_back({.stages = moved});
  for (Machine& machine : w.machines)
    machine.piece_rows = draw.one_of({0, 0, 1, 3, 8});
  w.faults.stage_patience = draw.one_of({30'000ms, 30'000ms, 10'000ms, 2000ms, 300ms});
}

} // namespace

Workload draw_workload(std::uint64_t seed, Elsewhere elsewhere) {
  Workload w = draw_local_workload(seed);
  if (elsewhere == Elsewhere::nothing)
    return w;
  Draw draw(seed ^ 0x66617261776179);
  w.reserve = false;
  if (elsewhere == Elsewhere::draft || draw.chance(0.4))
    move_draft(w);
  if (elsewhere == Elsewhere::several)
    move_stages(w, draw);
  return w;
}

TokenId drafted_behind(const Workload& workload, const speculation::SequenceSpec& spec,
                       std::span<const TokenId> tokens, std::uint32_t attempt) {
  sampling::WarpScratch scratch;
  speculation::SequenceSpec there = spec;
  there.warping.constraint = nullptr;
  const std::vector<float> row = warped_row(workload.draft(), there, tokens, scratch);
  return sampling::propose(spec.judged_by(), row, spec.noise, std::uint32_t(tokens.size()),
                           attempt);
}

Expected expected_of(const Workload& workload, const Job& job, const text::Tokenizer& tokenizer) {
  Expected expected;
  std::vector<TokenId> tokens = job.prompt;
  sampling::StopMatcher stops(job.stop);
  sampling::WarpScratch scratch;
  for (int n = 0; n < job.spec.max_tokens; ++n) {
    const std::vector<float> row = warped_row(workload.target, job.spec, tokens, scratch);
    const TokenId next =
        sampling::follow(job.spec.judged_by(), row, job.spec.noise, std::uint32_t(tokens.size()));
    tokens.push_back(next);
    expected.tokens.push_back(next);
    auto step = stops.feed(tokenizer.bytes(next));
    expected.text += step.text;
    const bool end_of_text = std::ranges::count(job.spec.end_of_text, next) > 0;
    if (step.stop || end_of_text) {
      expected.reason = FinishReason::stop;
      if (step.stop)
        return expected;
      break;
    }
  }
  expected.text += stops.finish();
  return expected;
}

} // namespace paceline::testing
