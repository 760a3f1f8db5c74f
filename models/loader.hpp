// Turns a checkpoint's tensors into a transformer's weights.
#pragma once

#include "gpu/device.hpp"
#include "models/load_options.hpp"
#include "models/shards.hpp"
#include "models/stages.hpp"
#include "models/transformer.hpp"

namespace paceline::models {

struct LoadedWeights {
  TransformerWeights weights;
  std::size_t bytes = 0;        ///< Bytes that were packed.
  std::size_t shared_bytes = 0; ///< Bytes of weights that are another model's.
};

/// Loads the weights of these layers, or a shard's part of them; with the first layer also the
/// embedding, with the last one (or behind it, LayerRange) the final norm and the head. Of a model
/// that shares (LoadOptions::shared) it loads the blocks' linear layers alone. dtype: the type of
/// matrices that are not quantized.
Result<LoadedWeights> load_weights(TensorSource& tensors, const ModelConfig& config,
                                   gpu::DType dtype, gpu::Device& device,
                                   const LoadOptions& options, const LayerRange& layers,
                                   const Shard& shard);

} // namespace paceline::models
