// Finds checkpoints: folders and files, the built-in pair, and models that lie here under a name.
#pragma once

#include "paceline/error.hpp"

#include <string>

namespace paceline::models {

/// Returns the place of a checkpoint. "demo" gives the built-in pair's folder for `role` ("target"
/// or "draft"); a folder or a .gguf file gives itself, whatever else has its name; any other name
/// is looked up in the stores (stores.hpp). The error for a name of the hub's form says how to
/// fetch it.
Result<std::string> find_checkpoint(const std::string& name, const std::string& role);

} // namespace paceline::models
