// What GGUF files call the tensors of a role.
#pragma once

#include "models/checkpoint/tensor_source.hpp"

#include <string>

namespace paceline::models {

/// Returns the name of a layer, below its block's; without ".weight". Empty: it depends on the
/// architecture (GgufArchitecture::ffn_norm), or files have no such layer.
const char* name_in_gguf(TensorRole role);
/// Returns the name of a short convolution's tensor; empty: the role is none's.
const char* name_in_gguf_convolution(TensorRole role);

/// Names of the tensors of an architecture.
struct GgufNames {
  const char* ffn_norm;      ///< GgufArchitecture::ffn_norm, like the next.
  const char* shared_expert; ///< GgufArchitecture::shared_expert
  bool convolves = false;    ///< Recurrent layers are short convolutions.

  /// Returns the name of a layer, in its block if it is in one; without ".weight".
  std::string layer(TensorKey key) const;
  /// Returns the whole name of the layer's tensor, which of some is no weight.
  std::string tensor(TensorKey key) const;
};

/// Returns the ending of the name of a role's tensor: ".weight" of most.
const char* ending_in_gguf(TensorRole role);
/// Returns whether the tensor is in no block.
bool is_outside_blocks(TensorRole role);

} // namespace paceline::models
