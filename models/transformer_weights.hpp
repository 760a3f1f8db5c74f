// The weights of a transformer (transformer.hpp), or of a device's part of it.
#pragma once

#include "gpu/kv_type.hpp"
#include "gpu/tensor.hpp"

#include <memory>
#include <vector>

namespace paceline::models {

/// A norm's weight, f32, and behind it its bias, if it is a layer norm (ModelConfig::layer_norms);
/// null if a family has none.
using Norm = std::shared_ptr<gpu::Buffer>;

/// One block's weights, packed for the device, with their biases. In a shard (shards.hpp) heads and
/// ffn are its own part; only the first shard has the biases of attention_out and down.
struct TransformerBlock {
  // The weights of a layer's mixer, or of its feed-forward, are null where it has none.
  Norm attention_norm; ///< [hidden]
  /// Queries, keys, values one below the other, above them gates of the output if attention has
  /// such. Of a recurrence the channels, its output's gates, and the rates (Recurrence::outputs);
  /// of a short convolution its rows.
  std::shared_ptr<const gpu::Weight> qkv;
  std::shared_ptr<const gpu::Weight> rates; ///< [rates, hidden]; null: `qkv` gives them, if any.
  // Constants of a recurrent layer (gpu::Recurrence, gpu::ShortConvolution), f32.
  std::shared_ptr<gpu::Buffer> kernel;
  std::shared_ptr<gpu::Buffer> kernel_bias;
  std::shared_ptr<gpu::Buffer> speeds;
  std::shared_ptr<gpu::Buffer> offsets;
  std::shared_ptr<gpu::Buffer> skips;
  Norm recurrence_norm; ///< [value_dim], or of all values with gpu::StateUpdate::sum
  Norm query_norm;      ///< [head_dim], or all heads' with QkNorm::full_width
  Norm key_norm;        ///< [head_dim], or all heads' with QkNorm::full_width
  Norm value_norm;      ///< [head_dim], of ones (ModelConfig::value_norm)
  std::shared_ptr<const gpu::Weight> attention_out; ///< [hidden, ModelConfig::mixer_values]
  std::shared_ptr<gpu::Buffer> sinks;               ///< [heads], f32; null: the family has none.
  Norm attention_post_norm;                         ///< [hidden]
  Norm ffn_norm; ///< [hidden]; null where there is none, or the block is parallel and has one norm.
  /// [experts, hidden], below it the gate of the shared expert, if it has one; null: the block is
  /// no mixture. In a mixture `gate_up` and `down` hold all experts' one below the other.
  std::shared_ptr<const gpu::Weight> router;
  std::shared_ptr<gpu::Buffer> choice_bias; ///< [experts], f32; null: experts are chosen by score.
  // Weights of a mixture that is apart (MixtureConfig::apart).
  std::shared_ptr<gpu::Buffer> expert_scales; ///< [experts], f32
  Norm router_norm;                           ///< [hidden], like the next ones.
  Norm expert_norm;
  Norm expert_post_norm;
  Norm shared_post_norm;
  std::shared_ptr<const gpu::Weight> shared_gate_up; ///< Of the shared expert; null: there is none.
  std::shared_ptr<const gpu::Weight> shared_down;
  /// gate, up one below the other, or only up (ModelConfig::gated)
  std::shared_ptr<const gpu::Weight> gate_up;
  std::shared_ptr<const gpu::Weight> down; ///< [hidden, ffn]
  Norm ffn_post_norm;                      ///< [hidden]
  // Weights of what a layer reads of a token (ModelConfig::layer_inputs).
  std::shared_ptr<const gpu::Weight> input_gate; ///< [layer_inputs, hidden]; null: nothing.
  std::shared_ptr<const gpu::Weight> input_out;  ///< [hidden, layer_inputs]
  Norm input_post_norm;                          ///< [hidden]
  float scale = 1;                               ///< Factor of the rows behind the layer.
};

/// cos and sin of every position, f32, [context, pairs that are rotated].
struct RopeBuffers {
  std::shared_ptr<gpu::Buffer> cos;
  std::shared_ptr<gpu::Buffer> sin;
};

/// The factor of the sum of the two parts of a layer's input.
inline constexpr float layer_inputs_scale = 0.70710678118f; // 1 / sqrt(2)

/// The weights of all layers, or of the consecutive layers of a stage.
struct TransformerWeights {
  // Weights that only a head on another model has (ModelConfig::fusion).
  std::shared_ptr<const gpu::Weight> fusion; ///< [hidden, features, 2 hidden, or 2 width] (Joint)
  Norm fusion_norm;                          ///< [hidden]
  std::vector<Norm> tap_norms;               ///< FusionConfig::tap_norms
  Norm token_norm;                           ///< [hidden]; null: the first block has one for it.
  std::shared_ptr<const gpu::Weight> fusion_out; ///< [width, hidden], with Joint::whole.
  std::shared_ptr<const gpu::Weight> clusters;   ///< [clusters, hidden], with ClusterConfig.
  /// [vocabulary, hidden], or a shard's part of these rows, as with the head; null: other layers
  /// come before these, and they have no inputs of their own.
  std::shared_ptr<const gpu::Weight> embedding;
  /// [context, hidden], in the shard and the stage that begin; null: no positions are learned.
  std::shared_ptr<const gpu::Weight> positions;
  // Weights of which inputs of these layers are made (ModelConfig::layer_inputs); null: they have
  // none. If they are not the first layers, `embedding` has all rows, for the projection.
  std::shared_ptr<const gpu::Weight> input_table;      ///< [vocabulary, layers * layer_inputs]
  std::shared_ptr<const gpu::Weight> input_projection; ///< [layers * layer_inputs, hidden]
  Norm input_norm;                                     ///< [layer_inputs]
  int first_layer = 0;
  std::vector<TransformerBlock> blocks;
  Norm final_norm; ///< [hidden]
  /// The embedding itself if they are tied; null, like the norm: other layers come behind these.
  std::shared_ptr<const gpu::Weight> head;
  gpu::KvType cached = gpu::KvType::f32; ///< Type of keys and values.
  std::vector<RopeBuffers> ropes;        ///< One per ModelConfig::ropes.
};

} // namespace paceline::models
