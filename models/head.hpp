// Heads on the target: a few layers that draft from the target's hidden states (features), which it
// leaves in its pages.
//
// A row of most heads reads a token and the features of the position before. It gives logits for
// the position behind the token and features of the token's position, from which the head goes on
// where the target has none yet. A drafter of blocks (block_drafter.hpp) reads the features of all
// positions, and gives logits for several positions at once.
#pragma once

#include "models/checkpoint/source.hpp"
#include "models/head_source.hpp"
#include "models/load_options.hpp"
#include "models/model.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// Returns whether a drafter's name (EngineOptions::drafters) is that of a head: "mtp", which the
/// checkpoint brings itself (mtp.hpp), or "eagle3:DIR", "dflash:DIR" or "gemma4-assistant:DIR", a
/// folder or a hub id (eagle3.hpp, dflash.hpp, gemma4_assistant.hpp).
bool is_head_draft(std::string_view name);

/// Opens the head of this name. source, target: of the target, and its configuration.
Result<HeadSource> open_head(const std::string& name, const CheckpointSource& source,
                             const ModelConfig& target);

struct Head {
  std::shared_ptr<const Model> model;
  /// The target, which leaves what the head reads (with_taps).
  std::shared_ptr<const Model> target;
  /// The head's id for each of the target's ids, -1: the head cannot say it; empty: they are the
  /// same.
  std::vector<TokenId> says;
};
/// Loads a head that was opened for this target, on a device that uses the target's memory.
Result<Head> load_head(HeadSource head, const std::shared_ptr<const Model>& target,
                       std::shared_ptr<gpu::Device> device, LoadOptions options);
/// Opens and loads it. Error: the target has no hidden states.
Result<Head> load_head(const std::string& name, const CheckpointSource& source,
                       const std::shared_ptr<const Model>& target,
                       std::shared_ptr<gpu::Device> device, LoadOptions options);

} // namespace paceline::models
