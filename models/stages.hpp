// How a model is divided among several devices: consecutive layers on each.
#pragma once

#include "gpu/device.hpp"
#include "models/config.hpp"
#include "models/layer_range.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace paceline::models {

class TensorSource;
struct LoadOptions;

/// Bytes of weights, as they are loaded.
struct WeightSizes {
  double layer = 0;
  double embedding = 0;
  double head = 0; ///< Which the last stage has even where it is the embedding.
};
WeightSizes sizes_of(const ModelConfig& config, const TensorSource& tensors, gpu::DType dtype,
                     const LoadOptions& options);

/// So that the stage that reads the most reads as little as it can: a step reads every layer and
/// the head, and of the embedding a few rows only. Where stages could have a layer more or less,
/// those in front, which hold the embedding, have less. layers: at least `stages`.
std::vector<LayerRange> divide_layers(int layers, const WeightSizes& sizes, int stages);

/// What each of these devices gets: LoadOptions::stage_layers, or a division by `sizes`. Errors:
/// more devices than layers, or numbers of layers that are not the model's.
Result<std::vector<LayerRange>> stages_of(const std::string& location, const ModelConfig& config,
                                          const WeightSizes& sizes, std::size_t devices,
                                          const LoadOptions& options);

/// Whether any of the blocks' linear layers is loaded in a microscaling format.
bool in_blocks(const TensorSource& tensors, const LoadOptions& options);

/// What a device has of a model, by its files: packing adds a little.
struct DevicePart {
  LayerRange layers;
  std::size_t weight_bytes = 0;
  std::size_t token_bytes = 0; ///< Of keys and values, for a position.
};
/// The same of each shard of each stage, with nothing loaded. dtype: as in sizes_of. Errors: as of
/// stages_of, or `shards` do not divide the model.
Result<std::vector<DevicePart>> parts_of(const std::string& location, const ModelConfig& config,
                                         const TensorSource& tensors, gpu::DType dtype,
                                         std::size_t stages, int shards,
                                         const LoadOptions& options);

/// Refuses weights that are larger than the devices' memory, and says how many such devices would
/// hold them. Those of other machines are asked there.
Result<void> check_memory(const std::string& location, const WeightSizes& sizes,
                          std::span<const LayerRange> stages,
                          std::span<const std::shared_ptr<gpu::Device>> devices);
/// Refuses so many layers for which the device has not enough memory left.
Result<void> check_room(const std::string& location, const WeightSizes& sizes, int layers,
                        const gpu::Device& device);

} // namespace paceline::models
