#include "models/stages.hpp"

#include "gpu/mx.hpp"
#include "models/checkpoint/source.hpp"
#include "models/checkpoint/tensor_source.hpp"
#include "models/load_options.hpp"
#include "models/shards.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <numeric>
#include <utility>

namespace paceline::models {

double bits_of(WeightFormat format) {
  return gpu::element_bits(format) + 8.0 / gpu::mx_block;
}

namespace {

/// Returns the bits of a number in the blocks' linear layers.
double block_bits(const TensorSource& tensors, gpu::DType dtype, const LoadOptions& options) {
  if (options.blocks)
    return bits_of(options.blocks->format);
  double bits = 0;
  double elements = 0;
  bool quantized = false;
  for (const TensorSource::Stored& stored : tensors.tensors()) {
    if (stored.part != ModelPart::attention && stored.part != ModelPart::feed_forward)
      continue;
    quantized |= stored.quantized || stored.blocks;
    bits += 8.0 * double(stored.bytes);
    elements += double(stored.elements);
  }
  return quantized && elements > 0 ? bits / elements : 8.0 * double(gpu::size_of(dtype));
}

std::string gibibytes(double bytes) {
  return fmt::format("{:.1f} GiB", bytes / 0x1p30);
}

} // namespace

WeightSizes sizes_of(const ModelConfig& c, const TensorSource& tensors, gpu::DType dtype,
                     const LoadOptions& options) {
  double mixers = 0; // numbers that they compute of a row, and that go into the last product
  for (int i = 0; i < c.layers; ++i)
    mixers += c.mixer_outputs(i) + c.mixer_values(i);
  const double table = double(c.vocabulary) * c.hidden / 8;
  const double inputs = double(c.layer_inputs) / 8;
  const double plain = 8.0 * double(gpu::size_of(dtype));
  WeightSizes sizes;
  sizes.layer = (mixers / c.layers + c.ffn_products() * c.stored_ffn()) * c.hidden / 8 *
                    block_bits(tensors, dtype, options) +
                3 * inputs * c.hidden * plain;
  sizes.layer_table = inputs * c.vocabulary * plain;
  sizes.embedding = table * plain;
  sizes.head = table * (options.head ? bits_of(options.head->format) : plain);
  return sizes;
}

std::vector<LayerRange> divide_layers(int layers, const WeightSizes& sizes, int stages) {
  assert(stages >= 1 && layers >= stages);
  const int others = stages - 1;
  int last = layers - others; // each other stage has one
  double least = std::numeric_limits<double>::infinity();
  for (int own = 1; others > 0 && own <= layers - others; ++own) {
    const int most = (layers - own + others - 1) / others;
    const double slowest = std::max(most * sizes.layer, own * sizes.layer + sizes.head);
    if (slowest <= least)
      last = own;
    least = std::min(least, slowest);
  }
  std::vector<LayerRange> ranges;
  int next = 0;
  for (int stage = 0; stage < others; ++stage) {
    const int count = (layers - last - next) / (others - stage);
    ranges.push_back({next, count});
    next += count;
  }
  ranges.push_back({next, last});
  return ranges;
}

Result<void> check_cut(const std::string& location, const ModelConfig& config,
                       const LayerRange& layers) {
  for (int i = layers.first; i < layers.end(); ++i)
    if (const int source = config.mixers[std::size_t(i)].keys_of;
        source >= 0 && source < layers.first)
      return fail(ErrorCode::unsupported,
                  fmt::format("layer {} of {} reads the keys of layer {}, which would be in "
                              "another stage",
                              i, text::shown_path(location), source),
                  fmt::format("end EngineOptions::stage_layers with at least {} layers",
                              config.layers - source));
  return {};
}

namespace {

/// Divides layers as divide_layers does, but for those that read others' keys: these, and the
/// layers from the first of those others on, are the last stage's at least.
std::vector<LayerRange> divide_whole(const ModelConfig& config, const WeightSizes& sizes,
                                     int stages) {
  int first = config.layers;
  for (const LayerConfig& layer : config.mixers)
    first = layer.keys_of >= 0 ? std::min(first, layer.keys_of) : first;
  std::vector<LayerRange> ranges = divide_layers(config.layers, sizes, stages);
  if (ranges.back().first <= first || first < stages - 1)
    return ranges;
  WeightSizes others = sizes;
  others.head = 0;
  ranges = divide_layers(first, others, stages - 1);
  ranges.push_back({first, config.layers - first});
  return ranges;
}

Result<std::vector<LayerRange>> checked(const std::string& location, const ModelConfig& config,
                                        std::vector<LayerRange> ranges) {
  for (const LayerRange& layers : ranges)
    if (auto whole = check_cut(location, config, layers); !whole)
      return tl::unexpected(whole.error());
  return ranges;
}

} // namespace

Result<std::vector<LayerRange>> stages_of(const std::string& location, const ModelConfig& config,
                                          const WeightSizes& sizes, std::size_t devices,
                                          const LoadOptions& options) {
  const std::vector<int>& given = options.stage_layers;
  if (devices > std::size_t(config.layers))
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} has {} layers, too few for {} stages", text::shown_path(location),
                            config.layers, devices),
                fmt::format("give EngineOptions::devices at most {}", config.layers));
  if (given.empty())
    return checked(location, config, divide_whole(config, sizes, int(devices)));
  const bool fits = given.size() == devices && std::ranges::min(given) >= 1 &&
                    std::accumulate(given.begin(), given.end(), 0) == config.layers;
  if (!fits)
    return fail(ErrorCode::invalid_argument,
                fmt::format("EngineOptions::stage_layers is {}, and {} has {} layers for {} stages",
                            fmt::join(given, ","), text::shown_path(location), config.layers,
                            devices),
                "give each stage its layers, or leave it out");
  std::vector<LayerRange> ranges;
  for (const int count : given)
    ranges.push_back({ranges.empty() ? 0 : ranges.back().end(), count});
  return checked(location, config, std::move(ranges));
}

bool in_blocks(const TensorSource& tensors, const LoadOptions& options) {
  return options.blocks || std::ranges::any_of(tensors.tensors(), [](const auto& stored) {
           return stored.quantized &&
                  (stored.part == ModelPart::attention || stored.part == ModelPart::feed_forward);
         });
}

namespace {

DevicePart part_of(const ModelConfig& config, const TensorSource& tensors, gpu::DType dtype,
                   const LayerRange& layers, const Shard& shard, const LoadOptions& options) {
  ModelConfig own = shard.config(config);
  own.vocabulary = shard.part(config.vocabulary).count;
  const WeightSizes sizes = sizes_of(own, tensors, dtype, options);
  const bool first = layers.first == 0;
  const bool last = layers.end() == config.layers;
  const bool one_table = first && last && config.tied_embedding && !options.head;
  const double bytes = layers.count * (sizes.layer + sizes.layer_table) + first * sizes.embedding +
                       (last && !one_table) * sizes.head;
  const gpu::KvType cached = options.cached(dtype == gpu::DType::bf16);
  return {layers, std::size_t(bytes), own.token_bytes(layers.first, layers.count, cached)};
}

} // namespace

Result<std::vector<DevicePart>> parts_of(const std::string& location, const ModelConfig& config,
                                         const TensorSource& tensors, gpu::DType dtype,
                                         std::size_t stages, int shards,
                                         const LoadOptions& options) {
  const bool blocks = in_blocks(tensors, options);
  if (auto divided = check_shards(location, config, blocks, shards); !divided)
    return tl::unexpected(divided.error());
  const WeightSizes sizes = sizes_of(config, tensors, dtype, options);
  return stages_of(location, config, sizes, stages, options)
      .map([&](const std::vector<LayerRange>& ranges) {
        std::vector<DevicePart> parts;
        for (const LayerRange& layers : ranges)
          for (int number = 0; number < shards; ++number)
            parts.push_back(part_of(config, tensors, dtype, layers, {number, shards}, options));
        return parts;
      });
}

Result<std::vector<DevicePart>> parts_of(const CheckpointSource& source, std::size_t stages,
                                         int shards, const LoadOptions& options) {
  return source.config().and_then([&](const ModelConfig& config) {
    return source.tensors(config).and_then([&](const std::unique_ptr<TensorSource>& tensors) {
      return parts_of(source.location(), config, *tensors, tensors->dtype(), stages, shards,
                      options);
    });
  });
}

Result<void> check_context(const std::string& location, int context, const LoadOptions& options) {
  if (options.positions_needed <= context)
    return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("EngineOptions::max_model_len is {}, and {} has a context of {} tokens",
                          options.positions_needed, text::shown_path(location), context),
              fmt::format("give at most {}", context));
}

// Devices on the host share one memory.
Result<void> check_memory(const std::string& location, const WeightSizes& sizes,
                          std::span<const LayerRange> stages,
                          std::span<const std::shared_ptr<gpu::Device>> devices) {
  double all = 0;
  double on_host = 0;
  std::vector<double> needed;
  for (const LayerRange& stage : stages) {
    const bool first = &stage == &stages.front();
    const bool last = &stage == &stages.back() && !stage.without_head;
    needed.push_back(stage.count * (sizes.layer + sizes.layer_table) + first * sizes.embedding +
                     (last && !(first && sizes.head == sizes.embedding)) * sizes.head);
    all += needed.back();
    const gpu::Device& device = *devices[needed.size() - 1];
    on_host += (device.on_host() && !device.elsewhere()) * needed.back();
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i]->elsewhere())
      continue;
    const double wanted = devices[i]->on_host() ? on_host : needed[i];
    const auto total = double(devices[i]->memory().total);
    if (wanted <= total)
      continue;
    return fail(ErrorCode::out_of_memory,
                fmt::format("the weights of {} take {}, {} of it on {}, which has {}",
                            text::shown_path(location), gibibytes(all), gibibytes(wanted),
                            devices[i]->name(), gibibytes(total)),
                fmt::format("give EngineOptions::devices {} devices of that size, or "
                            "EngineOptions::weights a smaller format",
                            int(std::ceil(all / total))));
  }
  return {};
}

Result<void> check_room(const std::string& location, const WeightSizes& sizes, int layers,
                        const gpu::Device& device) {
  const double wanted = layers * (sizes.layer + sizes.layer_table);
  const auto free = double(device.memory().available);
  if (wanted <= free)
    return {};
  return fail(ErrorCode::out_of_memory,
              fmt::format("{} layers of {} take {}, and {} has {} left", layers,
                          text::shown_path(location), gibibytes(wanted), device.name(),
                          gibibytes(free)),
              "give it fewer layers with EngineOptions::stage_layers, or EngineOptions::weights a "
              "smaller format");
}

} // namespace paceline::models
