// The tensor-parallel groups that `serve` can open.
#pragma once

#include "apps/console/plan/input.hpp"

#include <span>
#include <string>

namespace paceline::apps::plan {

/// Whether devices of these names may have so many shards of a stage: cpu devices alone, or sim
/// devices alone. One shard is always possible.
bool serves_shards(std::span<const std::string> devices, int shards);

/// Returns how many of the devices that are planned for may share a stage of each of the models
/// that have a checkpoint: at most `most`, a power of two. Checkpoints that cannot be read bound
/// nothing: opening them will be refused.
int shards_served(const Input& input, int most);

} // namespace paceline::apps::plan
