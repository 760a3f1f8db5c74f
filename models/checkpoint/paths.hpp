// Finds checkpoints: folders, the built-in pair, and the local Hugging Face cache.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::models {

/// Returns the place of a checkpoint. "demo" gives the built-in pair's folder for `role` ("target"
/// or "draft"); a folder or a .gguf file gives itself; "org/name" is looked up in the local Hugging
/// Face cache.
Result<std::string> find_checkpoint(const std::string& name, const std::string& role);

/// Lists the checkpoints in the local Hugging Face cache: "org/name", sorted.
std::vector<std::string> cached_checkpoints();

} // namespace paceline::models
