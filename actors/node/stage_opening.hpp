// A target's stages on nodes, when an engine opens.
#pragma once

#include "actors/model_loader.hpp"
#include "actors/node/remote_stage.hpp"

#include <memory>
#include <vector>

namespace paceline::actors {

/// What a node has given.
struct NodeStage {
  std::shared_ptr<const models::Model> model; ///< As the node describes it.
  std::shared_ptr<RemoteStageParts> parts;    ///< Pages are still to be named (OpenStage::pages).
  std::size_t kv_bytes = 0;                   ///< For all its pages, there and in its reserve.
};

/// Asks the node, and then EngineOptions::reserve_device, if it is given, for the layers that
/// `stage` (models::StageElsewhere) leaves to it, and sends the target's files first to a node that
/// lacks them and takes them. Waits as long as the node needs to load them. Errors: a node that is
/// not there, has another model or too little memory, or keeps pages of another size; a target that
/// is no checkpoint.
Result<NodeStage> open_node_stage(const ModelLoader& loader, const LoadedModel& target,
                                  const models::Model& stage, caf::actor_system& system);

} // namespace paceline::actors
