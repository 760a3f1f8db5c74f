#include "models/stages.hpp"

#include "gpu/mx.hpp"
#include "models/checkpoint/source.hpp"
#include "models/loader.hpp"
#include "models/shards.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <numeric>
#include <set>

namespace paceline::models {
namespace {

double bits_of(WeightFormat format) {
  return gpu::element_bits(format) + 8.0 / gpu::mx_block; // a scale for each block
}

/// Whether any of the blocks' linear layers is of a microscaling format.
bool in_blocks(const TensorSource& tensors, const LoadOptions& options) {
  return options.blocks || std::ranges::any_of(tensors.tensors(), [](const auto& stored) {
           return stored.quantized &&
                  (stored.part == ModelPart::attention || stored.part == ModelPart::feed_forward);
         });
}

/// Of a number of the blocks' linear layers.
double block_bits(const TensorSource& tensors, gpu::DType dtype, const LoadOptions& options) {
  if (options.blocks)
    return bits_of(options.blocks->format);
  double bits = 0;
  double elements = 0;
  bool quantized = false;
  for (const TensorSource::Stored& stored : tensors.tensors()) {
    if (stored.part != ModelPart::attention && stored.part != ModelPart::feed_forward)
      continue;
    quantized |= stored.quantized;
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
  const double attention = double(2 * c.heads + 2 * c.kv_heads) * c.head_dim;
  const double table = double(c.vocabulary) * c.hidden / 8;
  const double plain = 8.0 * double(gpu::size_of(dtype));
  WeightSizes sizes;
  sizes.layer = (attention + 3.0 * c.ffn) * c.hidden / 8 * block_bits(tensors, dtype, options);
  sizes.embedding = table * plain;
  sizes.head = table * (options.head ? bits_of(options.head->format) : plain);
  return sizes;
}

std::vector<LayerRange> divide_layers(int layers, const WeightSizes& sizes, int stages) {
  assert(stages >= 1 && layers >= stages);
  const int others = stages - 1;
  int last = layers - others; // with one each for the others
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
    return divide_layers(config.layers, sizes, int(devices));
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
  return ranges;
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
  const double bytes =
      layers.count * sizes.layer + first * sizes.embedding + (last && !one_table) * sizes.head;
  gpu::KvLayout pages{layers.count, own.kv_heads, own.head_dim};
  pages.dtype = dtype == gpu::DType::bf16 ? gpu::DType::bf16 : gpu::DType::f32;
  return {layers, std::size_t(bytes), pages.token_bytes()};
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

// Devices on the host have one memory together.
Result<void> check_memory(const std::string& location, const WeightSizes& sizes,
                          std::span<const LayerRange> stages,
                          std::span<const std::shared_ptr<gpu::Device>> devices) {
  double all = 0;
  double on_host = 0;
  std::vector<double> needed;
  for (const LayerRange& stage : stages) {
    const bool first = &stage == &stages.front();
    const bool last = &stage == &stages.back();
    needed.push_back(stage.count * sizes.layer + first * sizes.embedding +
                     (last && !(first && sizes.head == sizes.embedding)) * sizes.head);
    all += needed.back();
    on_host += devices[needed.size() - 1]->on_host() * needed.back();
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
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

namespace {

Result<gpu::DType> choose_dtype(NumberFormat wanted, gpu::DType stored,
                                const std::string& location) {
  switch (wanted) {
  case NumberFormat::automatic: return stored;
  case NumberFormat::f32: return gpu::DType::f32;
  case NumberFormat::bf16: return gpu::DType::bf16;
  case NumberFormat::f16: break;
  }
  if (stored == gpu::DType::f16)
    return stored;
  return fail(ErrorCode::unsupported,
              fmt::format("{} holds {} weights, which f16 cannot hold", text::shown_path(location),
                          gpu::to_string(stored)),
              "use EngineOptions::dtype = auto, bf16 or f32");
}

/// The formats of the blocks' linear layers, of which there is mostly one.
std::string formats_of(const std::vector<TransformerBlock>& blocks) {
  std::set<std::string> names;
  for (const TransformerBlock& block : blocks)
    for (const auto& weight : {block.qkv, block.attention_out, block.gate_up, block.down})
      names.emplace(to_string(weight->format()));
  return fmt::format("{}", fmt::join(names, "+"));
}

/// Of the blocks' linear layers.
std::size_t layer_bytes(const TransformerWeights& weights) {
  std::size_t bytes = 0;
  for (const TransformerBlock& b : weights.blocks)
    for (const auto& layer : {b.qkv, b.attention_out, b.gate_up, b.down})
      bytes += layer->bytes();
  return bytes;
}

using Devices = std::span<const std::shared_ptr<gpu::Device>>;
using Models = std::vector<std::shared_ptr<const Model>>;

/// A model's stages, one for each device, out of one source.
class StageLoader {
public:
  StageLoader(std::string location, ModelConfig config, std::unique_ptr<TensorSource> tensors,
              Devices devices, const LoadOptions& options)
      : location_(std::move(location)), config_(std::move(config)), tensors_(std::move(tensors)),
        devices_(devices), options_(options) {}

  Result<Models> load() {
    return check()
        .and_then([this] { return divide(); })
        .and_then([this] { return load_weights(); })
        .map([this] { return make_models(); });
  }

private:
  Result<void> check() {
    if (const auto enough = check_context(location_, config_.context, options_); !enough)
      return enough;
    config_.context = std::min(config_.context, options_.max_positions);
    const auto dtype = choose_dtype(options_.dtype, tensors_->dtype(), location_);
    if (!dtype)
      return tl::unexpected(dtype.error());
    dtype_ = *dtype;
    for (const auto& device : devices_) {
      if (const auto heads = device->check_heads(config_.head_dim); !heads)
        return heads;
      const int shards = std::max(1, int(device->shards().size()));
      if (auto divided = check_shards(location_, config_, in_blocks(*tensors_, options_), shards);
          !divided)
        return divided;
    }
    if (config_.quantization.activations)
      std::fprintf(stderr, "paceline: %s: %s quantizes what its layers read, too: not so here\n",
                   text::shown_path(location_).c_str(), config_.quantization.method.c_str());
    return {};
  }

  Result<void> divide() {
    const WeightSizes sizes = sizes_of(config_, *tensors_, dtype_, options_);
    return stages_of(location_, config_, sizes, devices_.size(), options_)
        .and_then([&](std::vector<LayerRange>&& ranges) {
          ranges_ = std::move(ranges);
          return devices_.size() > 1 ? check_memory(location_, sizes, ranges_, devices_)
                                     : Result<void>();
        });
  }

  Result<void> load_weights() {
    const TransformerWeights* shared = options_.shared ? weights_of(*options_.shared) : nullptr;
    whole_ = shared ? options_.shared.get() : nullptr;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      Loaded& stage = stages_.emplace_back();
      const auto members = devices_[i]->shards();
      const int shards = members.empty() ? 1 : int(members.size());
      for (int s = 0; s < shards; ++s) {
        gpu::Device& device = members.empty() ? *devices_[i] : *members[std::size_t(s)];
        auto loaded = shared ? load_layers(*tensors_, config_, dtype_, device, options_, *shared)
                             : models::load_weights(*tensors_, config_, dtype_, device, options_,
                                                    ranges_[i], {s, shards});
        if (!loaded)
          return tl::unexpected(loaded.error());
        stage.info.shared_bytes +=
            shared ? whole_->info().weight_bytes - layer_bytes(*shared) : loaded->shared_bytes;
        stage.info.weight_bytes += loaded->bytes;
        stage.weights.push_back(std::move(loaded->weights));
      }
      stage.info.weight_bytes += stage.info.shared_bytes;
    }
    if (shared)
      return {};
    return tensors_->check_all_taken();
  }

  Models make_models() {
    if (options_.progress)
      options_.progress("weights", 1);
    Models models;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      ModelInfo& info = stages_[i].info;
      const TransformerWeights& weights = stages_[i].weights.front();
      info.name = location_;
      info.architecture = config_.architecture;
      info.parameters = whole_ ? whole_->info().parameters : tensors_->parameters();
      info.dtype = gpu::to_string(dtype_);
      info.weights = formats_of(weights.blocks);
      info.head_weights = weights.head ? to_string(weights.head->format()) : "";
      info.device = devices_[i]->name();
      info.kernel = devices_[i]->kernel();
      info.shards = int(stages_[i].weights.size());
      info.layers = int(weights.blocks.size());
      info.vocabulary = config_.logits();
      info.max_model_len = config_.context;
      models.push_back(
          make_transformer(config_, std::move(stages_[i].weights), std::move(info), devices_[i]));
    }
    return models;
  }

  struct Loaded {
    std::vector<TransformerWeights> weights; ///< Of each shard.
    ModelInfo info;
  };
  const std::string location_;
  ModelConfig config_;
  const std::unique_ptr<TensorSource> tensors_;
  const Devices devices_;
  const LoadOptions& options_;
  gpu::DType dtype_ = gpu::DType::f32;
  const Model* whole_ = nullptr; ///< LoadOptions::shared, where it is a transformer.
  std::vector<LayerRange> ranges_;
  std::vector<Loaded> stages_;
};

} // namespace

Result<Models> load_transformer(const CheckpointSource& source, Devices devices,
                                const LoadOptions& options) {
  auto config = source.config();
  if (!config)
    return tl::unexpected(config.error());
  auto tensors = source.tensors(*config);
  if (!tensors)
    return tl::unexpected(tensors.error());
  return StageLoader(source.location(), std::move(*config), std::move(*tensors), devices, options)
      .load();
}

Result<std::shared_ptr<const Model>> load_transformer(const CheckpointSource& source,
                                                      std::shared_ptr<gpu::Device> device,
                                                      const LoadOptions& options) {
  return load_transformer(source, Devices(&device, 1), options).map([](Models&& models) {
    return std::move(models.front());
  });
}

Result<std::shared_ptr<const Model>> load_transformer(const std::string& location,
                                                      ModelConfig config,
                                                      std::unique_ptr<TensorSource> tensors,
                                                      std::shared_ptr<gpu::Device> device,
                                                      const LoadOptions& options) {
  return StageLoader(location, std::move(config), std::move(tensors), Devices(&device, 1), options)
      .load()
      .map([](Models&& models) { return std::move(models.front()); });
}

} // namespace paceline::models
