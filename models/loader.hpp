// From a checkpoint's tensors to a transformer's weights.
#pragma once

#include "gpu/device.hpp"
#include "models/shards.hpp"
#include "models/stages.hpp"
#include "models/transformer.hpp"

namespace paceline::models {

struct LoadedWeights {
  TransformerWeights weights;
  std::size_t bytes = 0;        ///< Of what was packed.
  std::size_t shared_bytes = 0; ///< Of a head: what the model that it is a head on has, too.
};

/// The weights of these layers, or a shard's part of them; with the first the embedding, with the
/// last (or behind it, LayerRange) the final norm and the head. dtype: of matrices that are not
/// quantized.
Result<LoadedWeights> load_weights(TensorSource& tensors, const ModelConfig& config,
                                   gpu::DType dtype, gpu::Device& device,
                                   const LoadOptions& options, const LayerRange& layers,
                                   const Shard& shard = {});

/// Linear layers of their own beside all else of `shared`, the weights of the same checkpoint.
Result<LoadedWeights> load_layers(TensorSource& tensors, const ModelConfig& config,
                                  gpu::DType dtype, gpu::Device& device, const LoadOptions& options,
                                  const TransformerWeights& shared);

} // namespace paceline::models
