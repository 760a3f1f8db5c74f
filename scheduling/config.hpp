// The configuration that a scheduler is made from.
#pragma once

#include "base/telemetry.hpp"
#include "paceline/engine.hpp"
#include "scheduling/kv.hpp"
#include "scheduling/limits.hpp"
#include "scheduling/step_cost.hpp"
#include "speculation/policy.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::scheduling {

/// The name of what the forms of answers draft, in Request::drafter and in figures.
inline constexpr const char* form_drafter = "form";

struct SchedulerConfig {
  std::uint32_t incarnation = 1; ///< Number of this scheduler; epochs of earlier ones are stale.
  speculation::PolicyOptions policy;
  bool has_draft = false;
  std::optional<Pool> draft_pool;    ///< The draft model's pages; none: the drafter has no pages.
  bool draft_reads_features = false; ///< The draft is a head on the target.
  /// Names of the drafters, for figures. Two of them: a look-up, and the model that it drafts
  /// beside.
  std::vector<std::string> drafters;
  bool forms_draft = false; ///< The forms of answers draft, beside the drafters if there are any.
  /// Says whether only a look-up or a caller's Drafter drafts, which proposes as much as it knows.
  bool proposes() const { return drafters.size() == 1 && drafters.front() != "model"; }
  int max_model_len = 0;
  int max_num_seqs = 16;
  int stages = 1; ///< Stages of the target: as many batches may be under way.
  SchedulingPolicy scheduling = SchedulingPolicy::fcfs;
  Batching batching = Batching::hybrid;
  int prefill_chunk = 512;              ///< Most prompt tokens of a step.
  int row_budget = 0;                   ///< Rows of a step that decodes, too; 0: by what they cost.
  base::Duration time_between_tokens{}; ///< No such step should exceed it; 0: no objective.
  int fast_chunk = 0;       ///< Prompts go by the fast path, in chunks of this; 0: none do.
  int attention_window = 0; ///< Positions that the target's rows see at most; 0: all.
  int logit_rows = 0;       ///< Rows of logits that the target's workspace has.
  StepPrior step_prior;
  std::shared_ptr<base::Telemetry> telemetry; ///< Written to, never read.
  FaultOptions faults;
  /// How long a pass may wait for a stage on another machine; its lane stands still no sooner.
  base::Duration stage_wait{};
  bool has_standby = false; ///< The target can go on elsewhere; the supervisor knows.

  /// Returns how long planned steps may take: a little less than the objective, since their time is
  /// predicted and not known. 0: there is no objective.
  base::Duration longest_step() const {
    return base::from_seconds(limits::objective_used * base::seconds(time_between_tokens));
  }
};

} // namespace paceline::scheduling
