// From a checkpoint folder to packed weights.
#include "base/bf16.hpp"
#include "models/checkpoint.hpp"
#include "models/limits.hpp"
#include "models/scripted.hpp"
#include "models/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace paceline::models {
namespace {

/// The part of a weight that one linear layer of the checkpoint holds.
struct LayerPart {
  std::string name; ///< Of the layer: its tensors are name.weight and name.bias.
  int rows;
  bool bias = false;
};

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

Result<gpu::DType> choose_dtype(NumberFormat wanted, gpu::DType stored, const std::string& folder) {
  switch (wanted) {
  case NumberFormat::automatic: return stored;
  case NumberFormat::f32: return gpu::DType::f32;
  case NumberFormat::bf16: return gpu::DType::bf16;
  case NumberFormat::f16: break;
  }
  if (stored == gpu::DType::f16)
    return stored;
  return fail(ErrorCode::unsupported,
              fmt::format("{} holds {} weights, which f16 cannot hold", shown_path(folder),
                          gpu::to_string(stored)),
              "use --dtype auto, bf16 or f32");
}

class Loader {
public:
  Loader(Checkpoint checkpoint, ModelConfig config, gpu::DType dtype, gpu::Device& device,
         const ProgressCallback& progress)
      : checkpoint_(std::move(checkpoint)), config_(std::move(config)), dtype_(dtype),
        device_(device), progress_(progress) {}

  /// The large tables come first: while one is packed it is in memory twice.
  Result<TransformerWeights> load() {
    const ModelConfig& c = config_;
    TransformerWeights w;
    w.embedding = pack({{"model.embed_tokens", c.vocabulary}}, c.hidden);
    if (c.tied_embedding)
      checkpoint_.ignore("lm_head.weight");
    w.head = c.tied_embedding ? w.embedding : pack({{"lm_head", c.vocabulary}}, c.hidden);
    for (int i = 0; i < c.layers && !error_; ++i) {
      report(double(i + 1) / double(c.layers + 1));
      w.blocks.push_back(block(fmt::format("model.layers.{}.", i)));
    }
    w.final_norm = norm("model.norm.weight", c.hidden);
    for (const RopeConfig& rope : c.ropes)
      w.ropes.push_back(rope_tables(rope));
    if (auto ok = checkpoint_.check_all_taken(); !ok && !error_)
      error_ = ok.error();
    if (error_)
      return tl::unexpected(*error_);
    report(1);
    return w;
  }

  std::size_t bytes() const { return bytes_; }
  std::uint64_t parameters() const { return checkpoint_.parameters(); }

private:
  TransformerBlock block(const std::string& prefix) {
    const ModelConfig& c = config_;
    const BlockTensors& names = c.tensors;
    const std::string attention = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
    const int queries = c.heads * c.head_dim;
    const int keys = c.kv_heads * c.head_dim;
    TransformerBlock b;
    b.attention_norm = block_norm(prefix, names.attention_norm);
    b.qkv = names.fused ? pack({{attention + "qkv_proj", queries + 2 * keys, c.qkv_bias}}, c.hidden)
                        : pack({{attention + "q_proj", queries, c.qkv_bias},
                                {attention + "k_proj", keys, c.qkv_bias},
                                {attention + "v_proj", keys, c.qkv_bias}},
                               c.hidden);
    if (c.qk_norm != QkNorm::none) {
      const bool full = c.qk_norm == QkNorm::full_width;
      b.query_norm = norm(attention + "q_norm.weight", full ? queries : c.head_dim);
      b.key_norm = norm(attention + "k_norm.weight", full ? keys : c.head_dim);
    }
    b.attention_out = pack({{attention + "o_proj", c.hidden, c.attention_out_bias}}, queries);
    b.attention_post_norm = block_norm(prefix, names.attention_post_norm);
    b.ffn_norm = block_norm(prefix, names.ffn_norm);
    b.gate_up =
        names.fused
            ? pack({{mlp + "gate_up_proj", 2 * c.ffn, c.ffn_bias}}, c.hidden)
            : pack({{mlp + "gate_proj", c.ffn, c.ffn_bias}, {mlp + "up_proj", c.ffn, c.ffn_bias}},
                   c.hidden);
    b.down = pack({{mlp + "down_proj", c.hidden, c.ffn_bias}}, c.ffn);
    b.ffn_post_norm = block_norm(prefix, names.ffn_post_norm);
    checkpoint_.ignore(attention + "rotary_emb.inv_freq");
    return b;
  }

  std::shared_ptr<const gpu::Weight> pack(const std::vector<LayerPart>& named, int cols) {
    Converter convert(dtype_);
    std::vector<gpu::HostMatrix> parts;
    std::vector<std::vector<float>> biases;
    biases.reserve(named.size());
    for (const LayerPart& part : named) {
      const auto matrix = keep(checkpoint_.matrix(part.name + ".weight", part.rows, cols));
      if (!matrix)
        return nullptr;
      parts.push_back(convert(*matrix));
      if (!part.bias)
        continue;
      const auto bias = keep(checkpoint_.vector(part.name + ".bias", part.rows));
      parts.back().bias = bias ? biases.emplace_back(*bias).data() : nullptr;
    }
    auto weight = keep(device_.pack(parts));
    for (const LayerPart& part : named)
      checkpoint_.release(part.name + ".weight");
    bytes_ += weight ? (*weight)->bytes() : 0;
    return weight.value_or(nullptr);
  }

  Norm block_norm(const std::string& prefix, const std::string& name) {
    return name.empty() ? nullptr : norm(prefix + name + ".weight", config_.hidden);
  }

  Norm norm(const std::string& name, int size) {
    auto values = keep(checkpoint_.vector(name, size));
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
                "lower --max-model-len"};
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
    if (progress_)
      progress_("weights", done);
  }

  Checkpoint checkpoint_;
  ModelConfig config_;
  gpu::DType dtype_;
  gpu::Device& device_;
  const ProgressCallback& progress_;
  std::optional<Error> error_;
  std::size_t bytes_ = 0;
};

Result<void> check_context(const std::string& name, int context, const LoadOptions& options) {
  if (options.positions_needed <= context)
    return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("max_model_len is {}, and {} has a context of {} tokens",
                          options.positions_needed, name, context),
              fmt::format("give at most {}", context));
}

} // namespace

Result<std::shared_ptr<const Model>> load_transformer(const std::string& folder,
                                                      std::shared_ptr<gpu::Device> device,
                                                      const LoadOptions& options) {
  auto config = load_config(folder);
  if (!config)
    return tl::unexpected(config.error());
  if (const auto enough = check_context(shown_path(folder), config->context, options); !enough)
    return tl::unexpected(enough.error());
  config->context = std::min(config->context, options.max_positions);
  auto checkpoint = Checkpoint::open(folder);
  if (!checkpoint)
    return tl::unexpected(checkpoint.error());
  const auto dtype = choose_dtype(options.dtype, checkpoint->dtype(), folder);
  if (!dtype)
    return tl::unexpected(dtype.error());
  if (const auto heads = device->check_heads(config->head_dim); !heads)
    return tl::unexpected(heads.error());
  Loader loader(std::move(*checkpoint), *config, *dtype, *device, options.progress);
  auto weights = loader.load();
  if (!weights)
    return tl::unexpected(weights.error());
  ModelInfo info;
  info.name = folder;
  info.architecture = config->architecture;
  info.parameters = loader.parameters();
  info.weight_bytes = loader.bytes();
  info.dtype = gpu::to_string(*dtype);
  info.device = device->name();
  info.kernel = device->kernel();
  info.vocabulary = config->vocabulary;
  info.max_model_len = config->context;
  return make_transformer(std::move(*config), std::move(*weights), std::move(info),
                          std::move(device));
}

Result<std::shared_ptr<const Model>> load_model(const std::string& path,
                                                std::shared_ptr<gpu::Device> device,
                                                const LoadOptions& options) {
  if (!is_scripted(path))
    return load_transformer(path, std::move(device), options);
  const auto scripted = parse_scripted(path);
  if (!scripted)
    return tl::unexpected(scripted.error());
  if (const auto enough = check_context(path, scripted->context, options); !enough)
    return tl::unexpected(enough.error());
  return make_scripted(*scripted, std::move(device));
}

} // namespace paceline::models
