// Stages of a target on nodes, for the opening of an engine.
#pragma once

#include "actors/model_loader.hpp"
#include "actors/other_machines.hpp"

namespace paceline::nodes {

/// Asks the node, and then EngineOptions::reserve_device, if it is given, for the layers that
/// `stage` (models::StageElsewhere) leaves to it, and sends the target's files first to a node that
/// lacks them and takes them. Waits as long as the node needs to load them. Errors: a node that is
/// not there, has another model or too little memory, or keeps pages of another size; a target that
/// is no checkpoint.
Result<actors::StageThere> open_node_stage(const actors::ModelLoader& loader,
                                           const actors::LoadedModel& target,
                                           const models::Model& stage, caf::actor_system& system);

} // namespace paceline::nodes
