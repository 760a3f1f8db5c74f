// What a GGUF file's metadata says of the model.
#pragma once

#include "models/checkpoint/gguf_files.hpp"
#include "models/config.hpp"

namespace paceline::models {

/// An architecture as GGUF files call it, and the family that it is here.
struct GgufArchitecture {
  const char* name;
  const char* family; ///< Family::architecture
  /// Rows of queries and keys that are rotated together are neighbours in the file; here they are
  /// half a head apart.
  bool neighbours = false;
};

/// Of a file; one that is not known is refused by name, with the list of those that are.
Result<const GgufArchitecture*> gguf_architecture(const GgufFiles& files);

/// The same configuration that the checkpoint's config.json gives. Errors name the key.
Result<ModelConfig> read_gguf_config(const GgufFiles& files);

} // namespace paceline::models
