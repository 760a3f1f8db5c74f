// Where models are found.
#pragma once

#include "paceline/error.hpp"

#include <string>

namespace paceline::models {

/// "demo" gives the built-in pair's folder for `role` ("target" or "draft"); a folder gives
/// itself; "org/name" is looked up in the local Hugging Face cache; "scripted:..." is its own
/// place.
Result<std::string> resolve_model_path(const std::string& name, const std::string& role);

} // namespace paceline::models
