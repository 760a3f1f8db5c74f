// The decoder-only transformer of Llama (Touvron et al. 2023) and the families that grew from it,
// written once over the device layer's operations.
#pragma once

#include "models/config.hpp"
#include "models/model.hpp"
#include "models/transformer_weights.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::models {

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
