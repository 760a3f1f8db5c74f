// What the metadata of a GGUF file says of a model's architecture, for a checkpoint in a folder.
#pragma once

#include "models/checkpoint/gguf_writer.hpp"
#include "models/config.hpp"
#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::models {

/// Puts the keys below an architecture's name. config: the folder's
Result<void> put_architecture(GgufMetadata& into, const std::string& folder,
                              const ModelConfig& config, const std::string& architecture);

/// A tensor of f32 that is made of config.json.
struct GgufTable {
  std::string name;
  std::vector<float> values;
};

/// Returns what files have as tensors of a rotation: by how much each pair's frequency is divided.
Result<std::vector<GgufTable>> gguf_rotation_tables(const std::string& folder,
                                                    const ModelConfig& config);

} // namespace paceline::models
