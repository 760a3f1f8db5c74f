// Which tensor-parallel groups `serve` can open.
#pragma once

#include "apps/console/plan/input.hpp"

#include <span>
#include <string>

namespace paceline::apps::plan {

/// Whether devices of these names may have so many shards of a stage: cpu devices alone, or sim
/// devices alone. One: always.
bool serves_shards(std::span<const std::string> devices, int shards);

/// The most devices of those that are planned for, up to `most`, a power of two, that may share a
/// stage of each of the models that have a checkpoint. Checkpoints that cannot be read bound
/// nothing: they are refused where they are opened.
int shards_served(const Input& input, int most);

} // namespace paceline::apps::plan
