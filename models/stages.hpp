// The division of a model among several devices: consecutive layers on each.
#pragma once

#include "gpu/device.hpp"
#include "models/config.hpp"
#include "models/layer_range.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace paceline::models {

class CheckpointSource;
class TensorSource;
struct LoadOptions;

/// Returns the bits of a number in a microscaling format, with its share of the block's scale.
double bits_of(WeightFormat format);

/// Bytes of weights as they are loaded.
struct WeightSizes {
  double layer = 0;
  double embedding = 0;
  double head = 0; ///< Read by the last stage, even if it is the embedding.
  /// What a layer's embedding takes (ModelConfig::layer_inputs); a step reads a few rows of it.
  double layer_table = 0;
};
WeightSizes sizes_of(const ModelConfig& config, const TensorSource& tensors, gpu::DType dtype,
                     const LoadOptions& options);

/// Divides layers so that the stage that reads the most reads as little as possible: a step reads
/// every layer and the head, but only a few rows of the embedding. Of stages that could have a
/// layer more or less, those in front, which hold the embedding, have less. layers: at least
/// `stages`.
std::vector<LayerRange> divide_layers(int layers, const WeightSizes& sizes, int stages);

/// Refuses to part layers that read another's keys from these. layers: a stage's.
Result<void> check_cut(const std::string& location, const ModelConfig& config,
                       const LayerRange& layers);

/// Returns the layers of each device: LoadOptions::stage_layers, or a division by `sizes`. Errors:
/// more devices than layers, numbers of layers that do not add up to the model's, or a cut where
/// there can be none.
Result<std::vector<LayerRange>> stages_of(const std::string& location, const ModelConfig& config,
                                          const WeightSizes& sizes, std::size_t devices,
                                          const LoadOptions& options);

/// Returns whether any of the blocks' linear layers is loaded in a microscaling format.
bool in_blocks(const TensorSource& tensors, const LoadOptions& options);

/// A device's part of a model, computed from its files: packing adds a little.
struct DevicePart {
  LayerRange layers;
  std::size_t weight_bytes = 0;
  std::size_t token_bytes = 0; ///< Bytes of keys and values of a position.
};
/// Returns the part of each shard of each stage, without loading anything. dtype: as in sizes_of.
/// Errors: those of stages_of, or `shards` do not divide the model.
Result<std::vector<DevicePart>> parts_of(const std::string& location, const ModelConfig& config,
                                         const TensorSource& tensors, gpu::DType dtype,
                                         std::size_t stages, int shards,
                                         const LoadOptions& options);
/// Does the same for a checkpoint whose weights keep their type.
Result<std::vector<DevicePart>> parts_of(const CheckpointSource& source, std::size_t stages,
                                         int shards, const LoadOptions& options);

/// Refuses a model whose `context` is shorter than LoadOptions::positions_needed.
Result<void> check_context(const std::string& location, int context, const LoadOptions& options);

/// Refuses weights that are larger than the devices' memory, and says how many such devices would
/// hold them. Devices of other machines are checked there.
Result<void> check_memory(const std::string& location, const WeightSizes& sizes,
                          std::span<const LayerRange> stages,
                          std::span<const std::shared_ptr<gpu::Device>> devices);
/// Refuses more layers than the device has memory left for.
Result<void> check_room(const std::string& location, const WeightSizes& sizes, int layers,
                        const gpu::Device& device);

} // namespace paceline::models
