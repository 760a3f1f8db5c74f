// The weights of a transformer (transformer.hpp), or of what one device has of it.
#pragma once

#include "gpu/tensor.hpp"

#include <memory>
#include <vector>

namespace paceline::models {

/// A norm's weight, f32; null where a family has none.
using Norm = std::shared_ptr<gpu::Buffer>;

/// One block's weights, packed for the device, biases with them. Of a shard (shards.hpp) heads and
/// ffn are its own part; the biases of attention_out and down are the first shard's.
struct TransformerBlock {
  Norm attention_norm;                              ///< [hidden]
  std::shared_ptr<const gpu::Weight> qkv;           ///< queries, keys, values one below the other
  Norm query_norm;                                  ///< [head_dim], or of all heads together
  Norm key_norm;                                    ///< (QkNorm::full_width)
  std::shared_ptr<const gpu::Weight> attention_out; ///< [hidden, heads * head_dim]
  Norm attention_post_norm;                         ///< [hidden]
  Norm ffn_norm;                                    ///< [hidden]
  std::shared_ptr<const gpu::Weight> gate_up;       ///< gate, up one below the other
  std::shared_ptr<const gpu::Weight> down;          ///< [hidden, ffn]
  Norm ffn_post_norm;                               ///< [hidden]
};

/// cos and sin of every position, f32, [context, pairs that are rotated].
struct RopeBuffers {
  std::shared_ptr<gpu::Buffer> cos;
  std::shared_ptr<gpu::Buffer> sin;
};

/// Of all layers, or of a stage: of consecutive ones.
struct TransformerWeights {
  // Of a head on another model (ModelConfig::fusion).
  std::shared_ptr<const gpu::Weight> fusion; ///< [hidden, features]
  Norm fusion_norm;                          ///< [hidden]
  /// [vocabulary, hidden], of a shard its part of the rows, as of the head's; null: other layers
  /// come before these.
  std::shared_ptr<const gpu::Weight> embedding;
  int first_layer = 0;
  std::vector<TransformerBlock> blocks;
  Norm final_norm; ///< [hidden]
  /// The embedding itself where they are tied; null, as the norm: other layers come behind these.
  std::shared_ptr<const gpu::Weight> head;
  gpu::DType cached = gpu::DType::f32; ///< Of keys and values: f32, or bf16.
  std::vector<RopeBuffers> ropes;      ///< One per ModelConfig::ropes.
};

} // namespace paceline::models
