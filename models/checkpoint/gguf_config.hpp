// Reads a model's configuration from a GGUF file's metadata.
#pragma once

#include "models/checkpoint/gguf_files.hpp"
#include "models/config.hpp"

namespace paceline::models {

/// An architecture under its name in GGUF files, with the family that it belongs to here.
struct GgufArchitecture {
  const char* name;
  const char* family; ///< Family::architecture
  /// Rows of queries and keys that are rotated together are neighbours in the file; here they are
  /// half a head apart.
  bool neighbours = false;
  const char* ffn_norm = "ffn_norm"; ///< The norm of the feed-forward's input.
  /// What the file calls a router's scores if it says so: parts of a softmax (1), sigmoids (2), or
  /// parts of one over the chosen experts (3).
  int gating = 1;
  bool layer_norms = false;             ///< ModelConfig::layer_norms
  const char* shared_expert = "_shexp"; ///< Behind the names of its parts.
};

/// Returns a file's architecture; an unknown one is refused by name, with the list of the known
/// ones.
Result<const GgufArchitecture*> gguf_architecture(const GgufFiles& files);

/// Returns the same configuration that the checkpoint's config.json gives. Errors name the key.
Result<ModelConfig> read_gguf_config(const GgufFiles& files);

} // namespace paceline::models
