// Requests through the real actors, on a virtual clock, with a scripted pair of models.
#pragma once

#include "base/telemetry.hpp"
#include "models/synthetic/scripted_options.hpp"
#include "speculation/policy.hpp"
#include "speculation/sequence.hpp"
#include "tests/exactness/coarse_rules.hpp"
#include "tests/exactness/pace.hpp"
#include "tests/exactness/probe.hpp"
#include "tests/support/simulation.hpp"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace paceline::testing {

/// What a run is a function of.
struct Setting {
  models::ScriptedOptions target{.vocabulary = 4, .memory = 2, .seed = 4};
  double acceptance = 0.7;
  Tokens prompt{1, 2, 0};
  int length = 5; ///< Of every output.
  sampling::Warping warping{.temperature = 1, .logit_bias = {}};
  sampling::Rule rule = sampling::Rule::rejection;
  bool coarse = false; ///< Rows and noise of coarse_rules.hpp.

  speculation::PolicyOptions policy;
  /// Mode and window of the n-th request; empty: the engine's.
  std::function<void(speculation::SequenceSpec&, int n)> vary;
  int together = 4; ///< Sequences in a batch; as many again wait.
  int stages = 1;   ///< Of the target, a device for each; a pass takes its time on all together.
  int shards = 1;   ///< Of each stage, likewise.
  int page_tokens = 2;
  int prefill_chunk = 64;
  std::size_t q_rows = 1024; ///< That drafts may hold, all together.

  Pace pace;
  /// Words of the target and, in the order of its own ids, of the draft model; empty: they are the
  /// same.
  std::vector<std::string> words;
  std::vector<std::string> draft_words;
  std::function<std::shared_ptr<Drafter>()> drafter; ///< In the model's place; empty: that drafts.
  /// What the forms of answers draft beside: nothing, by themselves, or whatever drafts.
  enum class Forms { none, alone, beside };
  Forms forms = Forms::none;
  bool beside_model = false; ///< The drafter is a look-up that has turns on the model's lane.
  /// The draft is behind a wire that takes so long each way; 0: it is in the engine.
  base::Duration one_way{};
  bool queues = false; ///< Lanes hold a piece ready behind the one at work.
  /// Actors are killed at moments that have nothing to do with what is drawn, this often on
  /// average; 0: never.
  base::Duration killed_every{};
  bool gives_up = true; ///< A lane that is late for long counts as dead.
  actors::VirtualTimeOptions order{
      .shuffle = true, .early_timer_probability = 0.05, .early_timer_reach = 5ms};
  int requests = 1000;
  /// The first of them, by which the engine learns its times: until then it does not know how long
  /// to wait for the draft. They are no part of the outcome.
  int warm_up = 50;
  std::uint64_t seed = 1; ///< Of everything: noise, lengths, order.

  models::ScriptedOptions draft() const {
    models::ScriptedOptions options = target;
    options.acceptance = acceptance;
    if (!draft_words.empty())
      options.vocabulary = int(draft_words.size());
    return options;
  }
  sampling::Noise noise(int n) const;
};

struct Outcome {
  std::vector<Tokens> outputs;
  Metrics metrics;
  Seen seen;
  int kills = 0;
  std::array<int, 3> modes{}; ///< How many requests ended in off, sync, overlap.
  base::Duration time{};      ///< Virtual, all requests together.
  std::size_t steps = 0;      ///< Of the virtual system: messages and timers.
  std::size_t callbacks = 0;  ///< Of lanes, among them: each a timer and a message.
};

/// Runs them all; throws std::runtime_error when a request does not end as it should.
Outcome run(const Setting& setting);

/// The warped rows that the outputs of `setting` follow.
World world_of(const Setting& setting);

} // namespace paceline::testing
