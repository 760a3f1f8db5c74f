// A draft model that is on a node, as a source of drafts.
#pragma once

#include "actors/draft_source.hpp"

namespace paceline::nodes {

/// What EngineOptions::drafters names, on the node that EngineOptions::draft_device names. Its
/// files are here, too, for they say which model is meant; its weights are not loaded. Errors: a
/// draft that is no model with the target's vocabulary; a node that is not there, or has another
/// model.
Result<std::unique_ptr<actors::DraftSource>> node_draft(const actors::ModelLoader& loader,
                                                        const actors::LoadedModel& target,
                                                        int max_model_len,
                                                        caf::actor_system& system);

} // namespace paceline::nodes
