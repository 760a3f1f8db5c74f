#include "models/checkpoint/gguf_of_folder.hpp"

#include "models/checkpoint/folder.hpp"
#include "models/checkpoint/folder_tensors.hpp"
#include "models/checkpoint/gguf_architecture.hpp"
#include "models/checkpoint/gguf_keys.hpp"
#include "models/checkpoint/gguf_names.hpp"
#include "models/checkpoint/gguf_source.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <string_view>
#include <utility>

namespace paceline::models {
namespace {

constexpr const char* into_folder_hint = "quantize it into a folder, or while it is loaded";

/// What files call the families that can be written, which is more than one name for some.
constexpr std::pair<const char*, const char*> written_families[] = {
    {"LlamaForCausalLM", "llama"},     {"MistralForCausalLM", "llama"},
    {"Qwen2ForCausalLM", "qwen2"},     {"Qwen3ForCausalLM", "qwen3"},
    {"Gemma2ForCausalLM", "gemma2"},   {"Gemma3ForCausalLM", "gemma3"},
    {"GraniteForCausalLM", "granite"}, {"Olmo2ForCausalLM", "olmo2"},
    {"Olmo3ForCausalLM", "olmo2"},     {"Phi3ForCausalLM", "phi3"},
    {"SmolLM3ForCausalLM", "smollm3"},
};

/// Roles of the tensors that a block of these families may have.
constexpr TensorRole block_roles[] = {
    TensorRole::attention_norm,
    TensorRole::query,
    TensorRole::key,
    TensorRole::value,
    TensorRole::query_key_value,
    TensorRole::query_norm,
    TensorRole::key_norm,
    TensorRole::attention_out,
    TensorRole::attention_post_norm,
    TensorRole::ffn_norm,
    TensorRole::gate,
    TensorRole::up,
    TensorRole::gate_up,
    TensorRole::down,
    TensorRole::ffn_post_norm,
};

bool is_norm(TensorRole role) {
  switch (role) {
  case TensorRole::final_norm:
  case TensorRole::attention_norm:
  case TensorRole::attention_post_norm:
  case TensorRole::ffn_norm:
  case TensorRole::ffn_post_norm:
  case TensorRole::query_norm:
  case TensorRole::key_norm: return true;
  default: return false;
  }
}

/// Gives a folder's tensors the names that they have in a GGUF file.
class FolderAsGguf {
public:
  FolderAsGguf(const std::string& folder, const ModelConfig& config,
               const GgufArchitecture& architecture)
      : folder_(folder), config_(config), architecture_(architecture) {}

  Result<GgufContents> read() {
    auto files = TensorFiles::open(folder_);
    if (!files)
      return tl::unexpected(files.error());
    files_ = std::make_shared<TensorFiles>(std::move(*files));
    out_.files.push_back(files_);
    return FolderSource(folder_).tensors(config_).and_then(
        [&](const std::unique_ptr<TensorSource>& source) -> Result<GgufContents> {
          add_tables(*source);
          add(*source, {TensorRole::final_norm}, name_in_gguf(TensorRole::final_norm));
          for (int block = 0; block < config_.layers; ++block)
            add_block(*source, block);
          return check_all_taken();
        });
  }

private:
  /// Adds the embedding, and the head if it is another matrix. Of tied ones a folder may have
  /// either, or both.
  void add_tables(const TensorSource& source) {
    const TensorKey embedding{TensorRole::embedding};
    const TensorKey head{TensorRole::head};
    const char* const name = name_in_gguf(TensorRole::embedding);
    add(source, source.has(TensorRole::embedding) ? embedding : head, name);
    if (source.same(embedding, head))
      taken_.insert(source.name(head));
    else if (source.has(TensorRole::embedding))
      add(source, head, name_in_gguf(TensorRole::head));
  }

  void add_block(const TensorSource& source, int block) {
    for (const TensorRole role : block_roles)
      if (source.has(role))
        add(source, {role, block},
            fmt::format("blk.{}.{}", block,
                        role == TensorRole::ffn_norm ? architecture_.ffn_norm
                                                     : name_in_gguf(role)));
  }

  /// Adds a layer's weight and bias, as far as it has them.
  void add(const TensorSource& source, TensorKey key, const std::string& name) {
    constexpr std::string_view weight = ".weight";
    const std::string own = source.name(key);
    const RowOrder order = row_order(key.role, config_, {.neighbours = architecture_.neighbours});
    const bool plus_one = config_.norms_plus_one && is_norm(key.role);
    add_stored(own, name + ".weight", order, plus_one);
    add_stored(own.substr(0, own.size() - weight.size()) + ".bias", name + ".bias", order, false);
  }

  void add_stored(const std::string& own, std::string name, const RowOrder& order, bool plus_one) {
    const TensorEntry* entry = files_->find(own);
    const auto dtype = entry ? dtype_of(entry->type) : std::nullopt;
    if (!dtype || entry->shape.empty() || entry->shape.size() > 2)
      return;
    taken_.insert(own);
    out_.tensors.push_back(
        {{std::move(name), *dtype, entry->shape, entry->bytes}, order, plus_one});
  }

  Result<GgufContents> check_all_taken() {
    for (const char* other : names_in(*files_, family_of(config_.architecture)).others)
      ignored_.emplace_back(other);
    for (const TensorFiles::Stored& tensor : files_->tensors()) {
      const std::string& name = tensor.entry->name;
      const bool ignored = std::ranges::any_of(
          ignored_, [&](const std::string& prefix) { return name.starts_with(prefix); });
      if (!taken_.contains(name) && !ignored && !is_computed(name))
        return fail(ErrorCode::unsupported,
                    fmt::format("{}: tensor {} has no place in a GGUF file of {}",
                                text::shown_path(folder_), text::shown(name), architecture_.name),
                    into_folder_hint);
    }
    return std::move(out_);
  }

  const std::string& folder_;
  const ModelConfig& config_;
  const GgufArchitecture& architecture_;
  std::shared_ptr<TensorFiles> files_;
  std::set<std::string, std::less<>> taken_;
  std::vector<std::string> ignored_; ///< Beginnings of names.
  GgufContents out_;
};

/// Files have factors as f32, and computing with them rounds once more.
bool nearly(float a, float b) {
  return std::abs(a - b) <= 2e-6f * std::max(std::abs(a), std::abs(b));
}

bool same_rotation(const RopeConfig& a, const RopeConfig& b) {
  return nearly(a.factor, b.factor) && std::ranges::equal(a.frequencies, b.frequencies, nearly);
}

bool same_mixer(const LayerConfig& a, const LayerConfig& b) {
  return a.window == b.window && a.rope == b.rope && a.mixer == b.mixer;
}

/// Returns what differs between a folder's model and that of the file which is made of it, in
/// words; empty: nothing.
std::string difference(const ModelConfig& a, const ModelConfig& b) {
  const std::pair<bool, const char*> parts[] = {
      {a.hidden == b.hidden && a.layers == b.layers && a.heads == b.heads &&
           a.kv_heads == b.kv_heads && a.head_dim == b.head_dim && a.ffn == b.ffn &&
           a.vocabulary == b.vocabulary,
       "sizes"},
      {a.context == b.context, "length of contexts"},
      {a.layer_norms == b.layer_norms && nearly(a.norm_epsilon, b.norm_epsilon) &&
           a.qk_norm == b.qk_norm && a.value_norm == b.value_norm,
       "norms"},
      {a.qkv_bias == b.qkv_bias && a.attention_out_bias == b.attention_out_bias &&
           a.ffn_bias == b.ffn_bias && a.head_bias == b.head_bias,
       "biases"},
      {nearly(a.embedding_scale, b.embedding_scale), "embedding"},
      {a.parallel == b.parallel && a.gated == b.gated && a.gating == b.gating, "feed-forwards"},
      {nearly(a.attention_scale, b.attention_scale) &&
           nearly(a.attention_soft_cap, b.attention_soft_cap) && a.sinks == b.sinks &&
           a.output_gate == b.output_gate,
       "attention"},
      {nearly(a.logit_scale, b.logit_scale) && nearly(a.logit_soft_cap, b.logit_soft_cap),
       "logits"},
      {std::ranges::equal(a.ropes, b.ropes, same_rotation), "rotations"},
      {std::ranges::equal(a.mixers, b.mixers, same_mixer), "windows and rotations of layers"},
  };
  for (const auto& [same, what] : parts)
    if (!same)
      return what;
  return "";
}

/// Checks that a file whose header is written says what config.json says.
Result<void> check_says(const std::string& folder, const ModelConfig& config,
                        const std::string& file) {
  return GgufSource(file).config().and_then([&](const ModelConfig& written) -> Result<void> {
    const std::string what = difference(config, written);
    if (what.empty())
      return {};
    return fail(ErrorCode::unsupported,
                fmt::format("{}: GGUF files have no word for the {} of this {}",
                            text::shown_path(folder), what, config.architecture),
                into_folder_hint);
  });
}

/// Returns what files call the model's family; an error: they have no name for it, or models of it
/// are not written.
Result<std::string> architecture_of(const std::string& folder, const ModelConfig& config) {
  std::set<std::string_view> known;
  for (const auto& [family, name] : written_families) {
    if (config.architecture == family && !config.mixture)
      return std::string(name);
    known.insert(name);
  }
  return fail(ErrorCode::unsupported,
              fmt::format("{}: a {} in a folder is not written as a GGUF file",
                          text::shown_path(folder), config.architecture),
              fmt::format("give a GGUF file of it, or a folder of {}", fmt::join(known, ", ")));
}

Result<void> check_plain(const std::string& folder, const ModelConfig& config) {
  if (config.quantization.method.empty())
    return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} is quantized already (by {})", text::shown_path(folder),
                          config.quantization.method),
              "give the original, whose weights are BF16, F16 or F32");
}

/// Adds the tensors that are made of config.json.
Result<void> add_rotation_tables(GgufContents& to, const std::string& folder,
                                 const ModelConfig& config) {
  return gguf_rotation_tables(folder, config).map([&](std::vector<GgufTable>&& tables) {
    for (GgufTable& table : tables) {
      const auto kept = std::make_shared<const std::vector<float>>(std::move(table.values));
      to.files.push_back(kept);
      to.tensors.push_back({{std::move(table.name),
                             gpu::DType::f32,
                             {std::int64_t(kept->size())},
                             std::as_bytes(std::span(*kept))}});
    }
  });
}

} // namespace

Result<GgufContents> gguf_of_folder(const std::string& folder) {
  const auto config = FolderSource(folder).config();
  if (!config)
    return tl::unexpected(config.error());
  const auto name =
      check_plain(folder, *config).and_then([&] { return architecture_of(folder, *config); });
  if (!name)
    return tl::unexpected(name.error());
  auto out = FolderAsGguf(folder, *config, *find_gguf_architecture(*name)).read();
  if (!out)
    return out;
  auto metadata = gguf_metadata_of(folder, *config, *name);
  if (!metadata)
    return tl::unexpected(metadata.error());
  out->metadata = std::move(*metadata);
  out->check = [folder, own = *config](const std::string& file) {
    return check_says(folder, own, file);
  };
  return add_rotation_tables(*out, folder, *config).map([&] { return std::move(*out); });
}

} // namespace paceline::models
