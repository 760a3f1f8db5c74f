// What is asked of the engine in a run, and what has to come of it.
#pragma once

#include "base/clock.hpp"
#include "models/synthetic/scripted_options.hpp"
#include "paceline/engine.hpp"
#include "speculation/sequence.hpp"
#include "tests/simulation/fault_plan.hpp"
#include "text/tokenizer.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline::testing {

/// One request, and what its caller does.
struct Job {
  speculation::SequenceSpec spec;
  std::vector<TokenId> prompt;
  std::vector<std::string> stop;
  base::Duration arrival{};
  std::optional<base::Duration> cancelled_at; ///< After arrival.
  bool cancelled_twice = false;
};

/// Another machine of a run, and what it is there for.
struct Machine {
  bool drafts = false;
  std::vector<int> stages{}; ///< Of the target: those of which it has the layers.
  int piece_rows = 0;        ///< Of a pass that goes through one; 0: as many as there may be.
};

/// A function of the seed.
struct Workload {
  models::ScriptedOptions target;
  double acceptance = 0.7;
  std::vector<Job> jobs;

  int max_num_seqs = 4;
  int max_open = 64;
  int max_model_len = 0;
  int page_tokens = 4;
  std::size_t pages = 64; ///< Of each pool.
  std::size_t q_rows = 1024;
  int prefill_chunk = 64;
  SchedulingPolicy scheduling = SchedulingPolicy::fcfs;
  Batching batching = Batching::hybrid;
  int row_budget = 0;
  base::Duration time_between_tokens{};
  SpeculationMode mode = SpeculationMode::automatic;
  std::optional<int> window;
  int tree_rows = 0; ///< Rows beside windows, if the draft is a model here.
  FaultOptions faults;
  base::Duration target_step{};
  bool steady = false; ///< The target's passes take just that.
  base::Duration draft_step{};
  bool queues = false; ///< Devices hold pieces ready behind those at work.
  /// Words of target and draft model; empty: they are the same.
  std::vector<std::string> words;
  std::vector<std::string> draft_words;
  bool looks_up = false; ///< A look-up drafts beside the model.
  bool reserve = false;  ///< The target's device may be lost for good; it has another.
  int stages = 1;        ///< Of the target, each on a device of its own,
  int shards = 1;        ///< or on so many.
  /// A stage that two have is on the first of them, and the other is its reserve. The first stage
  /// is on none.
  std::vector<Machine> machines{};

  models::ScriptedOptions draft() const {
    models::ScriptedOptions options = target;
    options.acceptance = acceptance;
    options.recurrent = false; // Such do not draft.
    if (!draft_words.empty())
      options.vocabulary = int(draft_words.size());
    return options;
  }
};

/// Draws a workload. With other machines it is the same as far as that can be.
Workload draw_workload(std::uint64_t seed, Elsewhere elsewhere = Elsewhere::nothing);

/// The output of one request by the scripted model alone, without actors: plain decoding.
struct Expected {
  std::vector<TokenId> tokens;
  std::string text;
  FinishReason reason = FinishReason::length; ///< stop or length
};
Expected expected_of(const Workload& workload, const Job& job, const text::Tokenizer& tokenizer);

/// What the scripted draft alone draws on a node behind `tokens` for a request, of whose form nodes
/// know nothing. attempt: of its chain.
TokenId drafted_behind(const Workload& workload, const speculation::SequenceSpec& spec,
                       std::span<const TokenId> tokens, std::uint32_t attempt);

} // namespace paceline::testing
