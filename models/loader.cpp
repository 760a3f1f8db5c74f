// From a checkpoint to packed weights.
#include "base/bf16.hpp"
#include "models/checkpoint/source.hpp"
#include "models/checkpoint/widen.hpp"
#include "models/limits.hpp"
#include "models/stages.hpp"
#include "models/transformer.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <set>
#include <string>

namespace paceline::models {
namespace {

/// The part of a weight that one linear layer of the checkpoint holds.
struct LayerPart {
  TensorKey key;
  int rows;
  bool bias = false;
};

/// The formats of the blocks' linear layers, of which there is mostly one.
std::string formats_of(const std::vector<TransformerBlock>& blocks) {
  std::set<std::string> names;
  for (const TransformerBlock& block : blocks)
    for (const auto& weight : {block.qkv, block.attention_out, block.gate_up, block.down})
      names.emplace(to_string(weight->format()));
  return fmt::format("{}", fmt::join(names, "+"));
}

/// Matrices of one pack in the model's dtype; owns what had to be converted.
class Converter {
public:
  explicit Converter(gpu::DType dtype) : dtype_(dtype) {}

  gpu::HostMatrix operator()(const gpu::HostMatrix& in) {
    if (in.dtype == dtype_)
      return in;
    const auto n = std::size_t(in.rows) * std::size_t(in.cols);
    wide_.push_back(widen(in.dtype, in.data, n));
    if (dtype_ == gpu::DType::f32)
      return {dtype_, wide_.back().data(), in.rows, in.cols};
    std::vector<base::bf16>& narrow = narrow_.emplace_back(n);
    for (std::size_t i = 0; i < n; ++i)
      narrow[i] = base::to_bf16(wide_.back()[i]);
    wide_.pop_back();
    return {dtype_, narrow.data(), in.rows, in.cols};
  }

private:
  gpu::DType dtype_;
  std::vector<std::vector<float>> wide_;
  std::vector<std::vector<base::bf16>> narrow_;
};

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

/// Of the blocks' linear layers.
std::size_t layer_bytes(const TransformerWeights& weights) {
  std::size_t bytes = 0;
  for (const TransformerBlock& b : weights.blocks)
    for (const auto& layer : {b.qkv, b.attention_out, b.gate_up, b.down})
      bytes += layer->bytes();
  return bytes;
}

class Loader {
public:
  Loader(TensorSource& tensors, const ModelConfig& config, gpu::DType dtype, gpu::Device& device,
         const LoadOptions& options)
      : tensors_(&tensors), config_(config), dtype_(dtype), device_(device), options_(options) {}

  /// The large tables come first: while one is packed it is in memory twice.
  Result<TransformerWeights> load(const LayerRange& layers) {
    const ModelConfig& c = config_;
    const bool last = layers.end() == c.layers;
    TransformerWeights w;
    w.first_layer = layers.first;
    if (layers.first == 0 || last)
      tensors_->read_ahead_tables();
    tensors_->read_ahead_block(layers.first);
    c.fusion ? load_head_tables(w) : load_tables(w, layers.first == 0, last);
    for (int i = layers.first; i < layers.end() && !error_; ++i) {
      begin_block(i);
      w.blocks.push_back(block(i));
    }
    if (c.fusion)
      load_fusion(w, *c.fusion);
    if (last)
      w.final_norm = norm({TensorRole::final_norm}, c.hidden);
    for (const RopeConfig& rope : c.ropes)
      w.ropes.push_back(rope_tables(rope));
    if (error_)
      return tl::unexpected(*error_);
    return w;
  }

  /// The weights of the same checkpoint, with linear layers of their own. bytes() and parameters()
  /// are those of the layers.
  Result<TransformerWeights> load_layers(TransformerWeights w) {
    tensors_->read_ahead_block(0);
    for (int i = 0; i < config_.layers && !error_; ++i) {
      begin_block(i);
      set_layers(w.blocks[std::size_t(i)], i);
    }
    if (error_)
      return tl::unexpected(*error_);
    return w;
  }

  std::size_t bytes() const { return bytes_; }
  std::size_t shared_bytes() const { return shared_bytes_; }

private:
  void load_fusion(TransformerWeights& w, const FusionConfig& fusion) {
    w.fusion = pack({{{TensorRole::fusion}, config_.hidden}}, fusion.features);
    w.fusion_norm = norm({TensorRole::fusion_norm}, config_.hidden);
  }

  /// A head's embedding may be that of the model that it is a head on.
  void load_head_tables(TransformerWeights& w) {
    constexpr TensorKey embedding{TensorRole::embedding};
    const TransformerWeights* target = options_.target ? weights_of(*options_.target) : nullptr;
    const bool shared =
        !tensors_->has(embedding.role) && target && target->embedding->inputs() == config_.hidden;
    w.embedding =
        shared ? target->embedding : pack({{embedding, config_.vocabulary}}, config_.hidden);
    shared_bytes_ = shared ? w.embedding->bytes() : 0;
    w.cached = cached_with(w.embedding);
    w.head = pack({{{TensorRole::head}, config_.logits()}}, config_.hidden, options_.head);
  }

  /// Tied tables are one: whichever the file has. Where it has both, and they differ, its
  /// config.json is wrong, and they are not tied. Stages have them both, where they are the first
  /// or the last.
  void load_tables(TransformerWeights& w, bool first, bool last) {
    constexpr TensorKey embedding{TensorRole::embedding};
    constexpr TensorKey head{TensorRole::head};
    const ModelConfig& c = config_;
    const bool has_head = tensors_->has(head.role);
    const bool only_head = c.tied_embedding && has_head && !tensors_->has(embedding.role);
    const bool tied =
        c.tied_embedding && (only_head || !has_head || tensors_->same(embedding, head));
    const LayerPart table{only_head ? head : embedding, c.vocabulary};
    if (first)
      w.embedding = pack({table}, c.hidden);
    w.cached = first ? cached_with(w.embedding) : cached_with(table);
    const LayerPart own{tied && !only_head ? embedding : head, c.vocabulary};
    if (last)
      w.head = tied && !options_.head && first ? w.embedding : pack({own}, c.hidden, options_.head);
    if (!tied)
      return;
    tensors_->ignore(head);
    tensors_->release(head);
  }

  /// Keys and values are of bf16 where the embedding is.
  static gpu::DType cached_with(const std::shared_ptr<const gpu::Weight>& embedding) {
    return embedding && embedding->format() == WeightFormat::bf16 ? gpu::DType::bf16
                                                                  : gpu::DType::f32;
  }
  /// Where another stage packs it.
  gpu::DType cached_with(const LayerPart& embedding) {
    const auto stored = keep(tensors_->matrix(embedding.key, embedding.rows, config_.hidden));
    return stored && !stored->block_scales && dtype_ == gpu::DType::bf16 ? gpu::DType::bf16
                                                                         : gpu::DType::f32;
  }

  void begin_block(int i) {
    report(double(i + 1) / double(config_.layers + 1));
    tensors_->read_ahead_block(i + 1);
  }

  TransformerBlock block(int i) {
    const ModelConfig& c = config_;
    const auto queries = c.heads * c.head_dim;
    const auto hidden_norm = [&](TensorRole role) { return norm({role, i}, c.hidden); };
    TransformerBlock b;
    b.attention_norm = hidden_norm(TensorRole::attention_norm);
    if (c.qk_norm != QkNorm::none) {
      const bool full = c.qk_norm == QkNorm::full_width;
      b.query_norm = norm({TensorRole::query_norm, i}, full ? queries : c.head_dim);
      b.key_norm = norm({TensorRole::key_norm, i}, full ? c.kv_heads * c.head_dim : c.head_dim);
    }
    b.attention_post_norm = hidden_norm(TensorRole::attention_post_norm);
    b.ffn_norm = hidden_norm(TensorRole::ffn_norm);
    b.ffn_post_norm = hidden_norm(TensorRole::ffn_post_norm);
    set_layers(b, i);
    return b;
  }

  void set_layers(TransformerBlock& b, int i) {
    const ModelConfig& c = config_;
    b.qkv = query_key_value(i);
    b.attention_out = layer({{{TensorRole::attention_out, i}, c.hidden, c.attention_out_bias}},
                            c.heads * c.head_dim);
    b.gate_up = gate_up(i);
    b.down = layer({{{TensorRole::down, i}, c.hidden, c.ffn_bias}}, c.ffn);
  }

  std::shared_ptr<const gpu::Weight> query_key_value(int i) {
    const ModelConfig& c = config_;
    const int queries = c.heads * c.head_dim;
    const int keys = c.kv_heads * c.head_dim;
    const int inputs = c.fusion && i == 0 ? 2 * c.hidden : c.hidden;
    if (tensors_->has(TensorRole::query_key_value))
      return layer({{{TensorRole::query_key_value, i}, queries + 2 * keys, c.qkv_bias}}, inputs);
    return layer({{{TensorRole::query, i}, queries, c.qkv_bias},
                  {{TensorRole::key, i}, keys, c.qkv_bias},
                  {{TensorRole::value, i}, keys, c.qkv_bias}},
                 inputs);
  }

  std::shared_ptr<const gpu::Weight> gate_up(int i) {
    const ModelConfig& c = config_;
    if (tensors_->has(TensorRole::gate_up))
      return layer({{{TensorRole::gate_up, i}, 2 * c.ffn, c.ffn_bias}}, c.hidden);
    return layer(
        {{{TensorRole::gate, i}, c.ffn, c.ffn_bias}, {{TensorRole::up, i}, c.ffn, c.ffn_bias}},
        c.hidden);
  }

  /// A linear layer of a block.
  std::shared_ptr<const gpu::Weight> layer(const std::vector<LayerPart>& parts, int cols) {
    return pack(parts, cols, options_.blocks);
  }

  std::shared_ptr<const gpu::Weight>
  pack(const std::vector<LayerPart>& layers, int cols,
       const std::optional<gpu::Quantization>& quantization = {}) {
    Converter convert(dtype_);
    std::vector<gpu::HostMatrix> parts;
    std::vector<std::vector<float>> biases;
    biases.reserve(layers.size());
    for (const LayerPart& part : layers) {
      auto matrix = keep(tensors_->matrix(part.key, part.rows, cols).and_then([&](auto stored) {
        return in_format(part.key, stored, quantization, convert);
      }));
      if (!matrix || !alike(layers.front().key, parts, part.key, *matrix))
        return nullptr;
      parts.push_back(*matrix);
      if (!part.bias)
        continue;
      const auto bias = keep(tensors_->bias(part.key, part.rows));
      parts.back().bias = bias ? biases.emplace_back(*bias).data() : nullptr;
    }
    auto weight = keep(device_.pack(parts));
    for (const LayerPart& part : layers)
      tensors_->release(part.key);
    bytes_ += weight ? (*weight)->bytes() : 0;
    return weight.value_or(nullptr);
  }

  /// What is quantized comes from the stored numbers, rounded once: what was stored in blocks stays
  /// as it is.
  Result<gpu::HostMatrix> in_format(TensorKey key, gpu::HostMatrix stored,
                                    const std::optional<gpu::Quantization>& wanted,
                                    Converter& convert) const {
    if (stored.block_scales && wanted && wanted->format != stored.format())
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} is {} already, and would be rounded twice to become {}",
                              tensors_->name(key), to_string(stored.format()),
                              to_string(wanted->format)),
                  "leave EngineOptions::weights, EngineOptions::draft_weights and "
                  "EngineOptions::head_weights out, or load the original");
    if (stored.block_scales)
      return stored;
    if (!wanted)
      return convert(stored);
    stored.quantization = wanted;
    return stored;
  }

  bool alike(TensorKey first, const std::vector<gpu::HostMatrix>& parts, TensorKey key,
             const gpu::HostMatrix& matrix) {
    if (parts.empty() || parts.front().format() == matrix.format())
      return true;
    error_ = Error{ErrorCode::unsupported,
                   fmt::format("{} is {}, and {}, which is read together with it, {}",
                               tensors_->name(first), to_string(parts.front().format()),
                               tensors_->name(key), to_string(matrix.format())),
                   "load a checkpoint in which both are quantized alike"};
    return false;
  }

  /// Null where the family has no such norm.
  Norm norm(TensorKey key, int size) {
    if (!tensors_->has(key.role))
      return nullptr;
    auto values = keep(tensors_->norm(key, size));
    for (std::size_t i = 0; config_.norms_plus_one && values && i < values->size(); ++i)
      (*values)[i] += 1;
    return values ? upload(*values) : nullptr;
  }

  std::shared_ptr<gpu::Buffer> upload(const std::vector<float>& values) {
    auto buffer = keep(device_.upload(values));
    bytes_ += buffer ? values.size() * sizeof(float) : 0;
    return buffer.value_or(nullptr);
  }

  /// Angles are products of f32, as in the implementations that models are trained with.
  RopeBuffers rope_tables(const RopeConfig& rope) {
    const std::size_t angles = std::size_t(config_.context) * rope.frequencies.size();
    if (error_)
      return {};
    if (2 * angles * sizeof(float) > limits::rope_table_bytes_max) {
      error_ =
          Error{ErrorCode::out_of_memory,
                fmt::format("{} positions take too large a table of rotations", config_.context),
                "lower EngineOptions::max_model_len"};
      return {};
    }
    std::vector<float> cos;
    std::vector<float> sin;
    cos.reserve(angles);
    sin.reserve(angles);
    for (int position = 0; position < config_.context; ++position) {
      for (const float frequency : rope.frequencies) {
        const float angle = float(position) * frequency;
        cos.push_back(rope.factor * std::cos(angle));
        sin.push_back(rope.factor * std::sin(angle));
      }
    }
    RopeBuffers out;
    out.cos = upload(cos);
    out.sin = upload(sin);
    return out;
  }

  /// The value, or none after remembering the first error; nothing is tried after an error.
  template <class T>
  std::optional<T> keep(Result<T> result) {
    if (!result && !error_)
      error_ = result.error();
    return error_ ? std::nullopt : std::optional<T>(std::move(*result));
  }

  void report(double done) const {
    if (options_.progress)
      options_.progress("weights", done);
  }

  TensorSource* tensors_;
  const ModelConfig& config_;
  gpu::DType dtype_;
  gpu::Device& device_;
  const LoadOptions& options_;
  std::optional<Error> error_;
  std::size_t bytes_ = 0;
  std::size_t shared_bytes_ = 0; ///< Of a head: what the model that it is a head on has, too.
};

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
    for (const auto& device : devices_)
      if (const auto heads = device->check_heads(config_.head_dim); !heads)
        return heads;
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
      Loader loader(*tensors_, config_, dtype_, *devices_[i], options_);
      auto weights = shared ? loader.load_layers(*shared) : loader.load(ranges_[i]);
      if (!weights)
        return tl::unexpected(weights.error());
      ModelInfo info;
      info.shared_bytes =
          shared ? whole_->info().weight_bytes - layer_bytes(*shared) : loader.shared_bytes();
      info.weight_bytes = info.shared_bytes + loader.bytes();
      infos_.push_back(std::move(info));
      weights_.push_back(std::move(*weights));
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
      ModelInfo& info = infos_[i];
      const TransformerWeights& weights = weights_[i];
      info.name = location_;
      info.architecture = config_.architecture;
      info.parameters = whole_ ? whole_->info().parameters : tensors_->parameters();
      info.dtype = gpu::to_string(dtype_);
      info.weights = formats_of(weights.blocks);
      info.head_weights = weights.head ? to_string(weights.head->format()) : "";
      info.device = devices_[i]->name();
      info.kernel = devices_[i]->kernel();
      info.layers = int(weights.blocks.size());
      info.vocabulary = config_.logits();
      info.max_model_len = config_.context;
      models.push_back(
          make_transformer(config_, std::move(weights_[i]), std::move(info), devices_[i]));
    }
    return models;
  }

  const std::string location_;
  ModelConfig config_;
  const std::unique_ptr<TensorSource> tensors_;
  const Devices devices_;
  const LoadOptions& options_;
  gpu::DType dtype_ = gpu::DType::f32;
  const Model* whole_ = nullptr; ///< LoadOptions::shared, where it is a transformer.
  std::vector<LayerRange> ranges_;
  std::vector<TransformerWeights> weights_;
  std::vector<ModelInfo> infos_;
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
