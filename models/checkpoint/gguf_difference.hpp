// Whether a GGUF file means the model that it was made of.
#pragma once

#include "models/config.hpp"

#include <string>

namespace paceline::models {

/// Returns what differs between a folder's model and that of the file which is made of it, in
/// words; empty: nothing. Orders of heads, blocks that draft, and how numbers are stored are no
/// difference.
std::string difference(const ModelConfig& folder, const ModelConfig& file);

} // namespace paceline::models
