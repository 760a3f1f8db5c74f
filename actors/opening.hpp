// The steps from options to the parts that an engine is started from: devices, models, memory,
// settings.
#pragma once

#include "actors/supervisor.hpp"
#include "constraints/compiler.hpp"
#include "models/config.hpp"
#include "paceline/engine.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::actors {

class OtherMachines;

/// All that `Engine::open` prepares before the first actor starts.
struct EngineContext {
  EngineParts parts;
  std::shared_ptr<execution::LaneCloser> closer; ///< Closes all lanes.
  std::shared_ptr<const text::Tokenizer> tokenizer;
  models::GenerationDefaults defaults;                ///< Used if a request leaves something open.
  std::shared_ptr<constraints::Compiler> constraints; ///< Compiles answers' forms.
  text::ChatTemplate chat = text::ChatTemplate::plain("");
  ModelInfo target;
  std::optional<ModelInfo> standby; ///< The target on the device where it can move to.
  std::optional<ModelInfo> draft;
  std::vector<std::string> drafters; ///< Names; the look-up stands before the model.
  bool draft_repeats = true;         ///< Whether its drafts follow from the request alone.
  int max_model_len = 0;
  int max_open = 0; ///< Most requests that may wait or run; more are refused.
};

/// Checks every option, opens devices, loads both models and divides the KV memory. machines: null:
/// devices of other machines are refused. system: the engine's; null without `machines`.
Result<EngineContext> open_context(const EngineOptions& options,
                                   const std::shared_ptr<base::Timekeeper>& time,
                                   const std::shared_ptr<base::Trace>& trace,
                                   const OtherMachines* machines = nullptr,
                                   caf::actor_system* system = nullptr);

} // namespace paceline::actors
