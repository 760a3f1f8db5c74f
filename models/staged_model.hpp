// A model in stages that one lane goes through, one after the other.
#pragma once

#include "models/model.hpp"

#include <memory>
#include <vector>

namespace paceline::models {

/// Returns what all stages are together. stages: of one model, in their order.
ModelInfo info_of(const std::vector<std::shared_ptr<const Model>>& stages);

/// Makes one model of stages: each computes its layers on its own device of the group, where their
/// keys and values are, while the others wait. A draft has nothing to overlap here, since each of
/// its tokens needs the one before: stages only give it room. stages: two or more of one model,
/// with pages each, in their order. group: their devices (gpu::GroupWork::in_turn).
std::shared_ptr<const Model> make_staged(std::vector<std::shared_ptr<const Model>> stages,
                                         std::shared_ptr<gpu::Device> group);

} // namespace paceline::models
