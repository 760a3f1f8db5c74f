#include "models/load.hpp"

#include "gpu/stacked_weight.hpp"
#include "models/block_drafter.hpp"
#include "models/loader.hpp"
#include "models/shards.hpp"
#include "models/stage_elsewhere.hpp"
#include "models/stages.hpp"
#include "models/synthetic/scripted.hpp"
#include "models/transformer.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace paceline::models {
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

/// Returns the formats of the blocks' linear layers; usually there is one.
std::string formats_of(const std::vector<TransformerBlock>& blocks) {
  std::set<std::string> names;
  for (const TransformerBlock& block : blocks)
    for (const auto& weight : {block.qkv, block.attention_out, block.gate_up, block.down})
      if (weight)
        for (const WeightFormat format : gpu::formats_of(*weight))
          names.emplace(to_string(format));
  return fmt::format("{}", fmt::join(names, "+"));
}

/// Returns whether rows are rounded to 8 bits before some product.
bool rounds_to_int8(const TransformerWeights& weights) {
  const auto rounds = [](const std::shared_ptr<const gpu::Weight>& weight) {
    return weight && weight->rounds_to_int8();
  };
  return rounds(weights.head) ||
         std::ranges::any_of(weights.blocks, [&](const TransformerBlock& b) {
           return rounds(b.qkv) || rounds(b.attention_out) || rounds(b.gate_up) || rounds(b.down);
         });
}

/// Loads a model's stages, one for each device, from one source.
class StageLoader {
public:
  StageLoader(std::string location, ModelConfig config, std::unique_ptr<TensorSource> tensors,
              Devices devices, const LoadOptions& options)
      : location_(std::move(location)), config_(std::move(config)), tensors_(std::move(tensors)),
        devices_(std::move(devices)), options_(settled(options, devices_)),
        asks_for_int8_(options.int8_rows()) {}

  Result<Stages> load() {
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
    for (const auto& possible : {check_recurrent(), check_inputs()})
      if (!possible)
        return possible;
    if (config_.text_only)
      options_.log.write(LogLevel::info, fmt::format("{}: only the part for text is read",
                                                     text::shown_path(location_)));
    for (const auto& device : devices_) {
      if (device->elsewhere())
        continue;
      if (const auto heads = device->check_heads(config_.widest_head()); !heads)
        return heads;
      if (const auto rounds = check_rows(*device); !rounds)
        return rounds;
      const int shards = std::max(1, int(device->shards().size()));
      if (auto divided = check_shards(location_, config_, in_blocks(*tensors_, options_), shards);
          !divided)
        return divided;
    }
    if (config_.quantization.activations)
      options_.log.write(LogLevel::warning,
                         fmt::format("{}: {} quantizes what its layers read, too: not so here",
                                     text::shown_path(location_), config_.quantization.method));
    tell_decoded();
    return {};
  }

  /// Returns whether some layers are another machine's.
  bool is_sent() const {
    return options_.only ||
           std::ranges::any_of(devices_, [](const auto& device) { return device->elsewhere(); });
  }

  /// Refuses to send recurrent layers to other machines, or to divide a draft that has some.
  Result<void> check_recurrent() {
    if (options_.drafts || devices_.size() > 1)
      config_.tentative = limits::tentative_max;
    if (config_.has_states() && options_.drafts && devices_.size() > 1)
      return fail(ErrorCode::unsupported,
                  fmt::format("{} has recurrent layers, and a draft with such is not divided",
                              text::shown_path(location_)),
                  "give EngineOptions::draft_devices one device");
    if (!config_.has_states() || !is_sent())
      return {};
    return fail(ErrorCode::unsupported,
                fmt::format("{} has recurrent layers, and stages of such on other machines are not "
                            "known",
                            text::shown_path(location_)),
                "give it devices of this machine");
  }

  /// Refuses to send layers to others that need a row's token beside what a stage hands on.
  Result<void> check_inputs() const {
    if (config_.layer_inputs == 0 || !is_sent())
      return {};
    return fail(ErrorCode::unsupported,
                fmt::format("{} has embeddings for each layer, and stages of such on other "
                            "machines are not known",
                            text::shown_path(location_)),
                "give it devices of this machine");
  }

  Result<void> check_rows(const gpu::Device& device) const {
    if (device.rounds_to_int8() || !options_.int8_rows())
      return {};
    return fail(
        ErrorCode::unsupported,
        fmt::format("{} rounds the rows of products to bf16, and not to int8", device.name()),
        "leave EngineOptions::activations and draft_activations out, or give a CPU");
  }

  /// Says which blocks of a GGUF file do not stay as they are.
  void tell_decoded() const {
    std::uint64_t stored = 0;
    std::uint64_t elements = 0;
    std::uint64_t rounded = 0;
    for (const TensorSource::Stored& tensor : tensors_->tensors()) {
      const bool linear =
          tensor.part == ModelPart::attention || tensor.part == ModelPart::feed_forward;
      if (options_.blocks && linear && (tensor.blocks || tensor.decoded)) {
        rounded += tensor.bytes;
      } else if (tensor.decoded || (tensor.blocks && dtype_ != gpu::DType::bf16)) {
        stored += tensor.bytes;
        elements += tensor.elements;
      }
    }
    const auto tell = [&](std::uint64_t bytes, const std::string& what) {
      if (bytes > 0)
        options_.log.write(LogLevel::info,
                           fmt::format("{}: {:.0f} MB of blocks are {}",
                                       text::shown_path(location_), double(bytes) / 1e6, what));
    };
    tell(stored, fmt::format("decoded to {}, and take {:.0f} MB", gpu::to_string(dtype_),
                             double(elements * gpu::size_of(dtype_)) / 1e6));
    if (options_.blocks)
      tell(rounded, fmt::format("rounded once more, to {}", to_string(options_.blocks->format)));
  }

  Result<void> divide() {
    WeightSizes sizes = sizes_of(config_, *tensors_, dtype_, options_);
    if (options_.only)
      return take_only(*options_.only, sizes);
    const bool tail = devices_.back()->elsewhere();
    if (tail)
      sizes.head = 0; // no stage with layers reads the head
    return stages_of(location_, config_, sizes, devices_.size(), options_)
        .and_then([&](std::vector<LayerRange>&& ranges) {
          ranges_ = std::move(ranges);
          ranges_.back().without_head = tail;
          return devices_.size() > 1 ? check_memory(location_, sizes, ranges_, devices_)
                                     : Result<void>();
        })
        .map([&] {
          if (tail)
            add_tail();
        });
  }

  /// Adds a stage on this machine for norm and head, behind the last stage with layers.
  void add_tail() {
    const auto own = std::ranges::find_if(devices_.rbegin(), devices_.rend(),
                                          [](const auto& device) { return !device->elsewhere(); });
    devices_.push_back(*own);
    ranges_.push_back({config_.layers, 0});
  }

  /// Takes the layers that were asked for, checked: anybody may ask.
  Result<void> take_only(const LayerRange& layers, const WeightSizes& sizes) {
    if (layers.first < 0 || layers.count < 1 || layers.count > config_.layers ||
        layers.first > config_.layers - layers.count)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} has {} layers, and not those that were asked for",
                              text::shown_path(location_), config_.layers));
    if (auto whole = check_cut(location_, config_, layers); !whole)
      return whole;
    ranges_ = {layers};
    return check_room(location_, sizes, layers.count, *devices_.front());
  }

  Result<void> load_weights() {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      Loaded& stage = stages_.emplace_back();
      if (devices_[i]->elsewhere())
        continue;
      const auto members = devices_[i]->shards();
      const int shards = members.empty() ? 1 : int(members.size());
      for (int s = 0; s < shards; ++s) {
        gpu::Device& device = members.empty() ? *devices_[i] : *members[std::size_t(s)];
        auto loaded = models::load_weights(*tensors_, config_, dtype_, device, options_, ranges_[i],
                                           {s, shards});
        if (!loaded)
          return tl::unexpected(loaded.error());
        stage.info.shared_bytes += loaded->shared_bytes;
        stage.info.weight_bytes += loaded->bytes + loaded->shared_bytes;
        stage.weights.push_back(std::move(loaded->weights));
      }
    }
    if (options_.shared)
      return {};
    leave_to_others();
    return tensors_->check_all_taken();
  }

  bool is_loaded(int layer) const {
    for (std::size_t i = 0; i < ranges_.size(); ++i)
      if (layer >= ranges_[i].first && layer < ranges_[i].end())
        return !devices_[i]->elsewhere();
    return false;
  }

  /// Ignores tensors that other machines load, and check.
  void leave_to_others() {
    if (options_.only)
      for (const TensorRole role :
           {TensorRole::embedding, TensorRole::positions, TensorRole::head, TensorRole::final_norm})
        tensors_->ignore({role});
    for (int layer = 0; layer < config_.layers + config_.draft_blocks; ++layer)
      if (!is_loaded(layer))
        tensors_->ignore_block(layer);
  }

  std::uint64_t parameters() const {
    if (options_.shared)
      return options_.shared->info().parameters;
    std::uint64_t all = 0;
    for (const TensorSource::Stored& stored : tensors_->tensors())
      all += stored.elements;
    const auto is_elsewhere = [](const auto& device) { return device->elsewhere(); };
    const bool divided = options_.only || std::ranges::any_of(devices_, is_elsewhere);
    return divided ? all : tensors_->parameters();
  }

  Stages make_models() {
    if (options_.progress)
      options_.progress("weights", 1);
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      ModelInfo& info = stages_[i].info;
      info.name = location_;
      info.architecture = config_.architecture;
      info.parameters = parameters();
      info.dtype = gpu::to_string(dtype_);
      info.device = devices_[i]->name();
      info.kernel = devices_[i]->kernel();
      info.layers = ranges_[i].count;
      info.vocabulary = config_.logits();
      info.max_model_len = config_.context;
      models_.push_back(devices_[i]->elsewhere() ? make_elsewhere(i) : make_stage(i));
    }
    return std::move(models_);
  }

  std::shared_ptr<const Model> make_stage(std::size_t i) {
    ModelInfo& info = stages_[i].info;
    const TransformerWeights& weights = stages_[i].weights.front();
    info.weights = formats_of(weights.blocks);
    info.head_weights = weights.head ? to_string(weights.head->format()) : "";
    info.activations = rounds_to_int8(weights) ? to_string(Activations::int8) : "";
    info.kv_cache_dtype = weights.cached == gpu::KvType::int8 ? to_string(KvCacheDtype::int8) : "";
    if (asks_for_int8_ && info.layers > 0 && info.activations.empty())
      options_.log.write(LogLevel::info,
                         fmt::format("{}: its weights are {}, whose products round nothing to "
                                     "int8",
                                     text::shown_path(location_), info.weights));
    info.shards = int(stages_[i].weights.size());
    if (config_.drafts_blocks())
      return make_block_drafter(config_, std::move(stages_[i].weights.front()), std::move(info),
                                devices_[i]);
    return make_transformer(config_, std::move(stages_[i].weights), std::move(info), devices_[i]);
  }

  std::shared_ptr<const Model> make_elsewhere(std::size_t i) {
    const LayerRange& layers = ranges_[i];
    const std::size_t token_bytes =
        config_.token_bytes(layers.first, layers.count, weights_of(*models_.front())->cached);
    return std::make_shared<const StageElsewhere>(
        StageElsewhere::Shape{layers, token_bytes, config_.logits(), config_.hidden,
                              config_.window(), layers.end() == config_.layers},
        std::move(stages_[i].info), devices_[i]);
  }

  struct Loaded {
    std::vector<TransformerWeights> weights; ///< Weights of each shard.
    ModelInfo info;
  };
  const std::string location_;
  ModelConfig config_;
  const std::unique_ptr<TensorSource> tensors_;
  Devices devices_;
  const LoadOptions options_;
  const bool asks_for_int8_;
  gpu::DType dtype_ = gpu::DType::f32;
  std::vector<LayerRange> ranges_;
  std::vector<Loaded> stages_;
  Stages models_;
};

} // namespace

Result<Stages> load_model(const CheckpointSource& source, Devices devices,
                          const LoadOptions& options) {
  if (is_scripted(source.location()))
    return load_scripted(source.location(), devices, options);
  auto config = source.config();
  if (!config)
    return tl::unexpected(config.error());
  auto tensors = source.tensors(*config);
  if (!tensors)
    return tl::unexpected(tensors.error());
  return load_transformer(source.location(), std::move(*config), std::move(*tensors),
                          std::move(devices), options);
}

Result<Stages> load_transformer(const std::string& location, ModelConfig config,
                                std::unique_ptr<TensorSource> tensors, Devices devices,
                                const LoadOptions& options) {
  return StageLoader(location, std::move(config), std::move(tensors), std::move(devices), options)
      .load();
}

LoadOptions settled(LoadOptions options, const Devices& devices) {
  const auto is_faster = [](const auto& device) { return device->faster_in_int8(); };
  if (!options.drafts || !std::ranges::all_of(devices, is_faster))
    return options;
  if (options.activations == Activations::automatic)
    options.activations = Activations::int8;
  if (options.kv_cache_dtype == KvCacheDtype::automatic)
    options.kv_cache_dtype = KvCacheDtype::int8;
  return options;
}

LoadOptions load_formats(const EngineOptions& options, const std::string& role) {
  const auto quantization = [&](const std::optional<WeightFormat>& format) {
    return format ? std::optional(gpu::Quantization{*format, options.weight_scales}) : std::nullopt;
  };
  LoadOptions load;
  load.dtype = options.dtype;
  load.blocks = quantization(role == "draft" ? options.draft_weights : options.weights);
  load.head = quantization(options.head_weights);
  load.drafts = role == "draft";
  load.activations = role == "draft" ? options.draft_activations : options.activations;
  load.kv_cache_dtype = role == "draft" ? options.draft_kv_cache_dtype : options.kv_cache_dtype;
  return load;
}

} // namespace paceline::models
