// The architectures that GGUF files may have.
#pragma once

#include "models/checkpoint/gguf_files.hpp"
#include "paceline/error.hpp"

#include <span>
#include <string>
#include <string_view>

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

/// Returns the architecture with this name; null: it is not known.
const GgufArchitecture* find_gguf_architecture(std::string_view name);

std::span<const GgufArchitecture> known_gguf_architectures();
/// Lists the names of all: "dots1, gemma2, ..."
std::string gguf_architecture_names();

/// Returns a file's architecture; an unknown one is refused by name, with the list of the known
/// ones.
Result<const GgufArchitecture*> gguf_architecture(const GgufFiles& files);

} // namespace paceline::models
