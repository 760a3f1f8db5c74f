// A source of drafts that is a draft model on a node.
#pragma once

#include "actors/draft_source.hpp"

namespace paceline::nodes {

/// Opens the draft that EngineOptions::drafters names, on the node that
/// EngineOptions::draft_devices names. The draft's files must be on this machine, too, because they
/// tell which model is meant; its weights are not loaded. Errors: a draft that is no model with the
/// target's vocabulary; a node that is not there, or has another model.
Result<std::unique_ptr<actors::DraftSource>> node_draft(const actors::ModelLoader& loader,
                                                        const actors::LoadedModel& target,
                                                        int max_model_len,
                                                        caf::actor_system& system);

} // namespace paceline::nodes
