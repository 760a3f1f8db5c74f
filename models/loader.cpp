// From a checkpoint folder to packed weights.
#include "base/bf16.hpp"
#include "models/checkpoint.hpp"
#include "models/scripted.hpp"
#include "models/transformer.hpp"

#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace paceline::models {
namespace {

/// The part of a weight that one tensor of the checkpoint holds.
struct PartName {
  std::string name;
  int rows;
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

  Result<TransformerWeights> load() {
    const ModelConfig& c = config_;
    TransformerWeights w;
    w.embedding = pack({{"model.embed_tokens.weight", c.vocabulary}}, c.hidden);
    for (int i = 0; i < c.layers && !error_; ++i) {
      w.blocks.push_back(block(fmt::format("model.layers.{}.", i)));
      report(double(i + 1) / double(c.layers + 1));
    }
    w.final_norm = norm("model.norm.weight");
    if (c.tied_embedding)
      checkpoint_.ignore("lm_head.weight");
    w.head = c.tied_embedding ? w.embedding : pack({{"lm_head.weight", c.vocabulary}}, c.hidden);
    rope_tables(w);
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
    const std::string attention = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
    const int queries = c.heads * c.head_dim;
    const int keys = c.kv_heads * c.head_dim;
    TransformerBlock b;
    b.attention_norm = norm(prefix + "input_layernorm.weight");
    b.qkv = pack({{attention + "q_proj.weight", queries},
                  {attention + "k_proj.weight", keys},
                  {attention + "v_proj.weight", keys}},
                 c.hidden);
    b.attention_out = pack({{attention + "o_proj.weight", c.hidden}}, queries);
    b.ffn_norm = norm(prefix + "post_attention_layernorm.weight");
    b.gate_up =
        pack({{mlp + "gate_proj.weight", c.ffn}, {mlp + "up_proj.weight", c.ffn}}, c.hidden);
    b.down = pack({{mlp + "down_proj.weight", c.hidden}}, c.ffn);
    checkpoint_.ignore(attention + "rotary_emb.inv_freq");
    return b;
  }

  std::shared_ptr<const gpu::Weight> pack(const std::vector<PartName>& names, int cols) {
    Converter convert(dtype_);
    std::vector<gpu::HostMatrix> parts;
    for (const PartName& part : names) {
      const auto matrix = keep(checkpoint_.matrix(part.name, part.rows, cols));
      if (!matrix)
        return nullptr;
      parts.push_back(convert(*matrix));
    }
    auto weight = keep(device_.pack(parts));
    for (const PartName& part : names)
      checkpoint_.release(part.name);
    bytes_ += weight ? (*weight)->bytes() : 0;
    return weight.value_or(nullptr);
  }

  std::shared_ptr<gpu::Buffer> norm(const std::string& name) {
    const auto values = keep(checkpoint_.vector(name, config_.hidden));
    return values ? upload(*values) : nullptr;
  }

  std::shared_ptr<gpu::Buffer> upload(const std::vector<float>& values) {
    auto buffer = keep(device_.upload(values));
    bytes_ += buffer ? values.size() * sizeof(float) : 0;
    return buffer.value_or(nullptr);
  }

  /// cos and sin of position * theta^(-2i / head_dim) (Su et al. 2021, section 3.2.2).
  void rope_tables(TransformerWeights& w) {
    std::vector<double> frequencies;
    for (int i = 0; i < config_.head_dim / 2; ++i)
      frequencies.push_back(std::pow(double(config_.rope_theta), -2.0 * i / config_.head_dim));
    std::vector<float> cos;
    std::vector<float> sin;
    for (int position = 0; position < config_.context && !error_; ++position) {
      for (const double frequency : frequencies) {
        cos.push_back(float(std::cos(position * frequency)));
        sin.push_back(float(std::sin(position * frequency)));
      }
    }
    w.rope_cos = upload(cos);
    w.rope_sin = upload(sin);
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

} // namespace

Result<std::shared_ptr<const Model>> load_transformer(const std::string& folder,
                                                      std::shared_ptr<gpu::Device> device,
                                                      const LoadOptions& options) {
  auto config = load_config(folder);
  if (!config)
    return tl::unexpected(config.error());
  auto checkpoint = Checkpoint::open(folder);
  if (!checkpoint)
    return tl::unexpected(checkpoint.error());
  const auto dtype = choose_dtype(options.dtype, checkpoint->dtype(), folder);
  if (!dtype)
    return tl::unexpected(dtype.error());
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
  return make_scripted(*scripted, std::move(device));
}

} // namespace paceline::models
