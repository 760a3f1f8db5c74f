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

/// Makes a transformer. config: checked (config.hpp); the weights have its shapes.
std::shared_ptr<const Model> make_transformer(ModelConfig config, TransformerWeights weights,
                                              ModelInfo info, std::shared_ptr<gpu::Device> device);
/// Makes one in shards: the weights of each, one for each device of the group `device`.
std::shared_ptr<const Model> make_transformer(ModelConfig config,
                                              std::vector<TransformerWeights> shards,
                                              ModelInfo info, std::shared_ptr<gpu::Device> device);

/// Returns the weights, or the first shard's if there are several. Valid as long as the model;
/// null: it is no transformer.
const TransformerWeights* weights_of(const Model& model);

/// Returns the same model, which leaves the inputs of these layers in its pages
/// (KvShape::features), in this order: a head on it reads them. A row's features are right as long
/// as its keys and values are. transformer: weights_of is not null.
std::shared_ptr<const Model> with_taps(const Model& transformer, std::vector<int> layers);

class CheckpointSource;
class TensorSource;

/// Reads configuration and tensors, and packs them.
Result<std::shared_ptr<const Model>> load_transformer(const CheckpointSource& source,
                                                      std::shared_ptr<gpu::Device> device,
                                                      const LoadOptions& options);
/// Loads it in stages, one for each device; stages of devices elsewhere are StageElsewhere. If the
/// last device is elsewhere, the final norm and the head are one stage more, on the last device
/// that is not. The first device must be on this machine.
Result<std::vector<std::shared_ptr<const Model>>>
load_transformer(const CheckpointSource& source,
                 std::span<const std::shared_ptr<gpu::Device>> devices, const LoadOptions& options);
/// Loads it on one device, with a configuration and tensors that were read from `location`.
Result<std::shared_ptr<const Model>> load_transformer(const std::string& location,
                                                      ModelConfig config,
                                                      std::unique_ptr<TensorSource> tensors,
                                                      std::shared_ptr<gpu::Device> device,
                                                      const LoadOptions& options);

} // namespace paceline::models
