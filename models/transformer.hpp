// The decoder-only transformer of Llama (Touvron et al. 2023) and the families that grew from it,
// written once over the device layer's operations.
#pragma once

#include "models/config.hpp"
#include "models/model.hpp"

#include <memory>
#include <string>
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

/// config: checked (config.hpp); the weights have its shapes.
std::shared_ptr<const Model> make_transformer(ModelConfig config, TransformerWeights weights,
                                              ModelInfo info, std::shared_ptr<gpu::Device> device);
/// In shards: the weights of each, one for each device of the group `device`.
std::shared_ptr<const Model> make_transformer(ModelConfig config,
                                              std::vector<TransformerWeights> shards,
                                              ModelInfo info, std::shared_ptr<gpu::Device> device);

/// Of the first shard, where there are several. Valid as long as the model; null: it is no
/// transformer.
const TransformerWeights* weights_of(const Model& model);

/// The same model, which leaves the inputs of these layers in its pages (KvShape::features), in
/// this order: what a head on it reads. A row's features are right as long as its keys and values
/// are. transformer: weights_of is not null.
std::shared_ptr<const Model> with_taps(const Model& transformer, std::vector<int> layers);

class CheckpointSource;
class TensorSource;

/// Reads configuration and tensors, and packs them.
Result<std::shared_ptr<const Model>> load_transformer(const CheckpointSource& source,
                                                      std::shared_ptr<gpu::Device> device,
                                                      const LoadOptions& options);
/// In stages, one for each device; those of devices elsewhere are StageElsewhere. Where the last
/// device is, the final norm and the head are one stage more, on the last device that is not. The
/// first device is of this machine.
Result<std::vector<std::shared_ptr<const Model>>>
load_transformer(const CheckpointSource& source,
                 std::span<const std::shared_ptr<gpu::Device>> devices, const LoadOptions& options);
/// On one device, of a configuration and tensors that were read from `location`.
Result<std::shared_ptr<const Model>> load_transformer(const std::string& location,
                                                      ModelConfig config,
                                                      std::unique_ptr<TensorSource> tensors,
                                                      std::shared_ptr<gpu::Device> device,
                                                      const LoadOptions& options);

} // namespace paceline::models
