// Turns a checkpoint's tensors into a transformer's weights.
#pragma once

#include "gpu/device.hpp"
#include "models/shards.hpp"
#include "models/stages.hpp"
#include "models/transformer.hpp"

namespace paceline::models {

struct LoadedWeights {
  TransformerWeights weights;
  std::size_t bytes = 0;        ///< Bytes that were packed.
  std::size_t shared_bytes = 0; ///< Bytes that a head shares with the model that it is a head on.
};

/// Loads the weights of these layers, or a shard's part of them; with the first layer also the
/// embedding, with the last one (or behind it, LayerRange) the final norm and the head. dtype: the
/// type of matrices that are not quantized.
Result<LoadedWeights> load_weights(TensorSource& tensors, const ModelConfig& config,
                                   gpu::DType dtype, gpu::Device& device,
                                   const LoadOptions& options, const LayerRange& layers,
                                   const Shard& shard = {});

/// Loads linear layers anew; everything else is that of `shared`, the weights of the same
/// checkpoint.
Result<LoadedWeights> load_layers(TensorSource& tensors, const ModelConfig& config,
                                  gpu::DType dtype, gpu::Device& device, const LoadOptions& options,
                                  const TransformerWeights& shared);

} // namespace paceline::models
