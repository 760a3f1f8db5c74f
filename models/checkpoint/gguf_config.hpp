// Reads a model's configuration from a GGUF file's metadata.
#pragma once

#include "models/checkpoint/gguf_files.hpp"
#include "models/config.hpp"

namespace paceline::models {

/// Returns the same configuration that the checkpoint's config.json gives. Errors name the key.
Result<ModelConfig> read_gguf_config(const GgufFiles& files);

} // namespace paceline::models
