// The decoder-only transformer of the Llama family (Touvron et al. 2023), written once over the
// device layer's operations.
#pragma once

#include "models/config.hpp"
#include "models/model.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::models {

/// One block's weights, packed for the device.
struct TransformerBlock {
  std::shared_ptr<gpu::Buffer> attention_norm;      ///< [hidden], f32
  std::shared_ptr<const gpu::Weight> qkv;           ///< queries, keys, values one below the other
  std::shared_ptr<const gpu::Weight> attention_out; ///< [hidden, heads * head_dim]
  std::shared_ptr<gpu::Buffer> ffn_norm;            ///< [hidden], f32
  std::shared_ptr<const gpu::Weight> gate_up;       ///< gate, up one below the other
  std::shared_ptr<const gpu::Weight> down;          ///< [hidden, ffn]
};

struct TransformerWeights {
  std::shared_ptr<const gpu::Weight> embedding; ///< [vocabulary, hidden]
  std::vector<TransformerBlock> blocks;
  std::shared_ptr<gpu::Buffer> final_norm; ///< [hidden], f32
  std::shared_ptr<const gpu::Weight> head; ///< The embedding itself where they are tied.
  std::shared_ptr<gpu::Buffer> rope_cos;   ///< [context, head_dim / 2], f32
  std::shared_ptr<gpu::Buffer> rope_sin;   ///< [context, head_dim / 2], f32
};

/// config: checked (config.hpp); the weights have its shapes.
std::shared_ptr<const Model> make_transformer(ModelConfig config, TransformerWeights weights,
                                              ModelInfo info, std::shared_ptr<gpu::Device> device);

/// Reads a checkpoint folder and packs it.
Result<std::shared_ptr<const Model>> load_transformer(const std::string& folder,
                                                      std::shared_ptr<gpu::Device> device,
                                                      const LoadOptions& options);

} // namespace paceline::models
