// The metadata of a GGUF file for a checkpoint in a folder.
#pragma once

#include "models/checkpoint/gguf_writer.hpp"
#include "models/config.hpp"
#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::models {

/// Returns the keys of the architecture, the tokenizer, the chat template and the defaults of
/// sampling. config: the folder's
Result<GgufMetadata> gguf_metadata_of(const std::string& folder, const ModelConfig& config,
                                      const std::string& architecture);

/// A tensor of f32 that is made of config.json.
struct GgufTable {
  std::string name;
  std::vector<float> values;
};

/// Returns what files have as tensors of a rotation: by how much each pair's frequency is divided.
Result<std::vector<GgufTable>> gguf_rotation_tables(const std::string& folder,
                                                    const ModelConfig& config);

} // namespace paceline::models
