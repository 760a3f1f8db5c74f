// The source of an engine's drafts: a draft model, a look-up, the caller's Drafter, or none.
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

/// The name in Request::drafter of a draft model, whatever it is and wherever.
inline constexpr const char* model_draft_name = "model";

/// The source, which is chosen once, when an engine is opened; the code that opens it asks this
/// class instead of options.
class DraftSource {
public:
  virtual ~DraftSource() = default;

  /// Whether anything drafts, be it the forms of answers alone.
  virtual bool exists() const { return true; }
  /// Whether its drafts follow from the request alone.
  virtual bool repeats() const { return true; }
  /// Changes the policy's options to suit the source. policy: as the options have it.
  virtual void adjust(speculation::PolicyOptions& policy, const LoadedModel& target) const = 0;
  /// Returns the names of what drafts, as in EngineOptions.
  virtual std::vector<std::string> names() const = 0;
  /// Returns the bytes of a KV page; 0: the source has no cache.
  virtual std::size_t page_bytes(int /*page_tokens*/) const { return 0; }
  /// Returns the bytes of a sequence's state; 0: no layer is recurrent.
  virtual std::size_t state_bytes() const { return 0; }
  /// Describes its model; none: it has no model.
  virtual std::optional<ModelInfo> info() const { return std::nullopt; }
  /// Adds to the parts that the actors are started from. parts: target, sampler and telemetry are
  /// complete. pages, states: those of its pool.
  virtual Result<void> add_to(EngineParts& parts, std::size_t pages, std::size_t states) const = 0;
};

/// Opens the source that the options ask for. loader: outlives the source. target: from then on
/// leaves the values that a head on it reads. max_model_len: the engine's. system: its actors';
/// null if no other machine is needed (needs_other_machines). Errors: a draft that cannot be
/// loaded, or has hardly a token in common with the target; a device that a Drafter cannot run on;
/// a node that is not there, or has another model.
Result<std::unique_ptr<DraftSource>> choose_draft_source(const ModelLoader& loader,
                                                         LoadedModel& target, int max_model_len,
                                                         caf::actor_system* system);

/// Says whether windows may have rows beside them (execution/token_tree.hpp), as far as the options
/// say.
bool may_have_trees(const EngineOptions& options);

/// Returns how many rows a pass of a draft model may have for forks, over all sequences.
int fork_rows_of(const EngineOptions& options);

} // namespace paceline::actors
