// The metadata of a GGUF file for a checkpoint in a folder.
#pragma once

#include "models/checkpoint/gguf_writer.hpp"
#include "models/config.hpp"
#include "paceline/error.hpp"

#include <string>

namespace paceline::models {

/// Returns the keys of the architecture, the tokenizer, the chat template and the defaults of
/// sampling. config: the folder's
Result<GgufMetadata> gguf_metadata_of(const std::string& folder, const ModelConfig& config,
                                      const std::string& architecture);

} // namespace paceline::models
