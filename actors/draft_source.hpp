// Where an engine's drafts come from: a draft model, a look-up, the caller's Drafter, or nowhere.
#pragma once

#include "actors/draft_model.hpp"
#include "actors/model_loader.hpp"
#include "actors/supervisor.hpp"
#include "speculation/policy.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::actors {

/// What Request::drafter calls a draft model, whatever it is and wherever.
inline constexpr const char* model_draft_name = "model";

/// Chosen once, when an engine is opened; who opens it asks this instead of options.
class DraftSource {
public:
  virtual ~DraftSource() = default;

  /// Whether anything drafts.
  virtual bool exists() const { return true; }
  /// Whether its drafts follow from the request alone.
  virtual bool repeats() const { return true; }
  /// What the source has to say about how it is used. policy: as the options have it.
  virtual void adjust(speculation::PolicyOptions& policy, const LoadedModel& target) const = 0;
  /// What drafts, by the names that EngineOptions has for them.
  virtual std::vector<std::string> names() const = 0;
  /// Bytes of a KV page; 0: it has no cache.
  virtual std::size_t page_bytes(int /*page_tokens*/) const { return 0; }
  /// What it runs; none: no model.
  virtual std::optional<ModelInfo> info() const { return std::nullopt; }
  /// Adds to what the actors are started from. parts: target, sampler and telemetry are complete.
  virtual Result<void> add_to(EngineParts& parts, std::size_t pages) const = 0;
};

/// What the options ask for. loader: outlives the source. target: leaves what a head on it reads,
/// from then on. max_model_len: the engine's. system: its actors'; null where no other machine is
/// needed (needs_other_machines). Errors: a draft that cannot be loaded, or has hardly a token in
/// common with the target; a device that a Drafter cannot run on; a node that is not there, or has
/// another model.
Result<std::unique_ptr<DraftSource>> choose_draft_source(const ModelLoader& loader,
                                                         LoadedModel& target, int max_model_len,
                                                         caf::actor_system* system);

/// Rows that a pass of a draft model may have for forks, over all sequences.
int fork_rows_of(const EngineOptions& options);

} // namespace paceline::actors
