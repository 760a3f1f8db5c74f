// What GGUF files call the tensors of a role.
#pragma once

#include "models/checkpoint/tensor_source.hpp"

namespace paceline::models {

/// Returns the name of a layer, below its block's; without ".weight". Empty: it depends on the
/// architecture (GgufArchitecture::ffn_norm), or files have no such layer.
const char* name_in_gguf(TensorRole role);
/// Returns the name of a short convolution's tensor; empty: the role is none's.
const char* name_in_gguf_convolution(TensorRole role);

} // namespace paceline::models
