// The decoder-only transformer of GPT-2 (Radford et al. 2019), of Llama (Touvron et al. 2023) and
// of the families that grew from them, written once over the device layer's operations.
#pragma once

#include "models/config.hpp"
#include "models/model.hpp"
#include "models/transformer_weights.hpp"

#include <memory>
#include <vector>

namespace paceline::models {

/// Makes a transformer. config: checked (config.hpp). shards: the weights of each, which have its
/// shapes, one for each device of the group `device`; a single one: the whole model.
std::shared_ptr<const Model> make_transformer(ModelConfig config,
                                              std::vector<TransformerWeights> shards,
                                              ModelInfo info, std::shared_ptr<gpu::Device> device);

/// Returns its configuration. Valid as long as the model; null: it is no transformer.
const ModelConfig* config_of(const Model& model);

/// Returns the weights, or the first shard's if there are several. Valid as long as the model;
/// null: it is no transformer.
const TransformerWeights* weights_of(const Model& model);

/// Returns the same model, which leaves the inputs of these layers in its pages
/// (KvShape::features), in this order, and behind them keys and values of the layers `keys`: a head
/// on it reads them (ModelConfig::taps, key_taps). A row's features are right as long as its keys
/// and values are. transformer: weights_of is not null.
std::shared_ptr<const Model> with_taps(const Model& transformer, std::vector<int> layers,
                                       std::vector<int> keys = {});

} // namespace paceline::models
