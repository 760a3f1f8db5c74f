#include "models/checkpoint/gguf_keys.hpp"

#include "models/checkpoint/files.hpp"
#include "models/checkpoint/folder.hpp"
#include "models/families.hpp"
#include "text/json.hpp"
#include "text/tokenizer/to_gguf.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <system_error>
#include <utility>

namespace paceline::models {
namespace json = boost::json;
namespace fs = std::filesystem;
namespace {

/// A number of config.json that goes into a file as it is, and its key below the architecture's
/// name.
struct PlainKey {
  const char* config;
  const char* key;
};
constexpr PlainKey plain_factors[] = {
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"attention_multiplier", "attention.scale"},
    {"embedding_multiplier", "embedding_scale"},
    {"residual_multiplier", "residual_scale"},
    {"logits_scaling", "logit_scale"},
};
constexpr PlainKey rotation_factors[] = {
    {"factor", "rope.scaling.factor"},
    {"beta_fast", "rope.scaling.yarn_beta_fast"},
    {"beta_slow", "rope.scaling.yarn_beta_slow"},
    {"attention_factor", "rope.scaling.yarn_attn_factor"},
};

constexpr const char* long_rotation = "longrope"; ///< "su" in older files.

std::optional<double> number_in(const json::object* object, std::string_view key) {
  const json::value* value = object ? object->if_contains(key) : nullptr;
  return value && value->is_number() ? std::optional(value->to_number<double>()) : std::nullopt;
}

const json::object* object_below(const json::object* object, std::string_view key) {
  const json::value* value = object ? object->if_contains(key) : nullptr;
  return value ? value->if_object() : nullptr;
}

/// A config.json that read_config took: what it says of the part that writes.
class ConfigJson {
public:
  static Result<ConfigJson> read(const std::string& folder, const ModelConfig& config) {
    return read_json_object(folder + "/config.json").map([&](json::object&& object) {
      const Family& family = family_of(config.architecture);
      const json::object* text =
          *family.text_config == '\0' ? nullptr : object_below(&object, family.text_config);
      return ConfigJson(text ? json::object(*text) : std::move(object), family);
    });
  }

  std::optional<double> number(std::string_view key) const { return number_in(&object_, key); }

  /// Returns the object that scales the rotation of layers that see all positions; null: none does.
  const json::object* rotation() const {
    if (const json::object* old = object_below(&object_, "rope_scaling"))
      return old;
    const json::object* all = object_below(&object_, "rope_parameters");
    const json::object* whole = object_below(all, "full_attention");
    return whole ? whole : all;
  }
  /// Returns how that is called; empty: rotations are not scaled.
  std::string rotation_type() const {
    const json::object* own = rotation();
    for (const char* key : {"rope_type", "type"})
      if (const json::value* type = own ? own->if_contains(key) : nullptr;
          type && type->is_string() && *type != "default")
        return *type == "su" ? std::string(long_rotation) : std::string(type->get_string());
    return "";
  }

  double theta() const {
    return number("rope_theta")
        .value_or(number_in(rotation(), "rope_theta").value_or(family_->rope.theta));
  }
  /// Returns the base for layers with a window (Gemma 3).
  double local_theta() const {
    constexpr double usual = 10'000;
    const json::object* all = object_below(&object_, "rope_parameters");
    return number("rope_local_base_freq")
        .value_or(number_in(object_below(all, "sliding_attention"), "rope_theta").value_or(usual));
  }
  double norm_epsilon() const { return number("rms_norm_eps").value_or(family_->norm_epsilon); }

private:
  ConfigJson(json::object object, const Family& family)
      : object_(std::move(object)), family_(&family) {}

  json::object object_;
  const Family* family_;
};

/// Puts keys below the name of an architecture.
class ArchitectureKeys {
public:
  ArchitectureKeys(GgufMetadata& into, std::string architecture)
      : into_(into), prefix_(std::move(architecture) + ".") {}

  void size(std::string_view key, int value) {
    into_.put(prefix_ + std::string(key), std::uint32_t(value));
  }
  void factor(std::string_view key, double value) {
    into_.put(prefix_ + std::string(key), float(value));
  }
  void flags(std::string_view key, const std::vector<bool>& values) {
    into_.put(prefix_ + std::string(key), values);
  }
  void text(std::string_view key, std::string_view value) {
    into_.put(prefix_ + std::string(key), value);
  }

private:
  GgufMetadata& into_;
  std::string prefix_;
};

/// Puts the length of windows, and which layers have one if some have none.
void put_windows(ArchitectureKeys& keys, const ModelConfig& config) {
  std::vector<bool> slides;
  int window = 0;
  for (const LayerConfig& layer : config.mixers) {
    slides.push_back(layer.window > 0);
    window = std::max(window, layer.window);
  }
  if (window == 0)
    return;
  keys.size("attention.sliding_window", window);
  if (std::ranges::find(slides, false) != slides.end())
    keys.flags("attention.sliding_window_pattern", slides);
}

void put_shape(ArchitectureKeys& keys, const ModelConfig& config) {
  keys.size("vocab_size", config.vocabulary);
  keys.size("context_length", config.context);
  keys.size("embedding_length", config.hidden);
  keys.size("block_count", config.layers);
  keys.size("feed_forward_length", config.ffn);
  keys.size("attention.head_count", config.heads);
  keys.size("attention.head_count_kv", config.kv_heads);
  keys.size("attention.key_length", config.head_dim);
  keys.size("attention.value_length", config.head_dim);
  put_windows(keys, config);
}

void put_rotation(ArchitectureKeys& keys, const ModelConfig& config, const ConfigJson& json) {
  keys.size("rope.dimension_count", 2 * int(config.ropes.front().frequencies.size()));
  keys.factor("rope.freq_base", json.theta());
  if (config.ropes.size() > 1)
    keys.factor("rope.freq_base_swa", json.local_theta());
  const std::string type = json.rotation_type();
  if (type.empty() || type == "llama3") // which is a tensor: gguf_rotation_tables
    return;
  if (type == long_rotation) { // so is this, and context_length is what it was stretched to
    keys.size("context_length", int(json.number("max_position_embeddings").value_or(0)));
    keys.factor("rope.scaling.attn_factor", config.ropes.front().factor);
  } else {
    keys.text("rope.scaling.type", type);
  }
  for (const PlainKey& own : rotation_factors)
    if (const auto value = number_in(json.rotation(), own.config))
      keys.factor(own.key, *value);
  constexpr const char* trained = "original_max_position_embeddings";
  const auto outside = json.number(trained); // which counts before the one within
  if (const auto value = outside ? outside : number_in(json.rotation(), trained))
    keys.size("rope.scaling.original_context_length", int(*value));
}

/// Returns by how much Llama 3 divides the frequency of each pair.
std::vector<float> divisors(const ModelConfig& config, double theta) {
  const std::vector<float>& scaled = config.ropes.front().frequencies;
  std::vector<float> out;
  for (std::size_t i = 0; i < scaled.size(); ++i)
    out.push_back(float(std::pow(theta, -double(i) / double(scaled.size())) / double(scaled[i])));
  return out;
}

std::vector<float> numbers_in(const json::object* object, std::string_view key) {
  std::vector<float> out;
  const json::value* list = object ? object->if_contains(key) : nullptr;
  if (list && list->is_array())
    for (const json::value& value : list->get_array())
      out.push_back(value.is_number() ? value.to_number<float>() : 0);
  return out;
}

/// Puts the ids of tokens that a file names.
void put_special(GgufMetadata& out, const text::GgufTokenizer& tokenizer, const json::object& names,
                 const std::vector<TokenId>& ends) {
  const auto put = [&](const char* key, std::optional<TokenId> id) {
    if (id)
      out.put(fmt::format("tokenizer.ggml.{}_token_id", key), std::uint32_t(*id));
  };
  const auto named = [&](const char* name) {
    const auto token = special_token(names, name);
    return token ? tokenizer.find(*token) : std::nullopt;
  };
  put("bos", tokenizer.begin ? tokenizer.begin : named("bos_token"));
  constexpr const char* end_keys[] = {"eos", "eot", "eom"};
  for (std::size_t i = 0; i < std::min(ends.size(), std::size(end_keys)); ++i)
    put(end_keys[i], ends[i]);
  put("unknown", named("unk_token"));
  put("padding", named("pad_token"));
}

void put_tokenizer(GgufMetadata& out, const text::GgufTokenizer& tokenizer) {
  out.put("tokenizer.ggml.model", tokenizer.model);
  out.put("tokenizer.ggml.pre", tokenizer.pre.empty() ? "default" : tokenizer.pre);
  out.put("tokenizer.ggml.tokens", tokenizer.tokens);
  out.put("tokenizer.ggml.token_type", tokenizer.types);
  if (!tokenizer.scores.empty())
    out.put("tokenizer.ggml.scores", tokenizer.scores);
  if (!tokenizer.merges.empty())
    out.put("tokenizer.ggml.merges", tokenizer.merges);
  out.put("tokenizer.ggml.add_bos_token", tokenizer.add_begin);
  out.put("tokenizer.ggml.add_eos_token", tokenizer.add_end);
  out.put("tokenizer.ggml.add_space_prefix", tokenizer.add_space_prefix);
}

/// Puts the tokenizer, after all that reads it here has found it to be in order.
Result<void> put_texts(GgufMetadata& out, const FolderSource& source, const ModelConfig& config) {
  const auto own = source.tokenizer();
  if (!own)
    return tl::unexpected(own.error());
  const auto defaults = source.generation_defaults();
  if (!defaults)
    return tl::unexpected(defaults.error());
  const auto chat = source.chat_template("");
  if (!chat)
    return tl::unexpected(chat.error());
  const std::string path = source.location() + "/tokenizer.json";
  const auto tokenizer = read_json_object(path).and_then([&](const json::object& root) {
    return text::to_gguf(text::shown_path(path), root, config.vocabulary);
  });
  if (!tokenizer)
    return tl::unexpected(tokenizer.error());
  const auto names = read_json_object(source.location() + "/tokenizer_config.json");
  put_tokenizer(out, *tokenizer);
  put_special(out, *tokenizer, names.value_or(json::object()), defaults->end_of_text);
  if (chat->stops().empty()) // Only the plain format, of models without a template, has such.
    out.put("tokenizer.chat_template", chat->source());
  const sampling::Warping& warping = defaults->warping;
  if (!warping.greedy()) {
    out.put("general.sampling.temp", float(warping.temperature));
    if (warping.top_k > 0)
      out.put("general.sampling.top_k", std::uint32_t(warping.top_k));
    out.put("general.sampling.top_p", float(warping.top_p));
    out.put("general.sampling.min_p", float(warping.min_p));
  }
  if (warping.repetition_penalty != 1)
    out.put("general.sampling.penalty_repeat", warping.repetition_penalty);
  return {};
}

} // namespace

Result<GgufMetadata> gguf_metadata_of(const std::string& folder, const ModelConfig& config,
                                      const std::string& architecture) {
  const auto json = ConfigJson::read(folder, config);
  if (!json)
    return tl::unexpected(json.error());
  GgufMetadata out;
  out.put("general.architecture", architecture);
  out.put("general.type", "model");
  std::error_code ignored;
  out.put("general.name", fs::weakly_canonical(folder, ignored).filename().string());
  ArchitectureKeys keys(out, architecture);
  put_shape(keys, config);
  put_rotation(keys, config, *json);
  keys.factor("attention.layer_norm_rms_epsilon", json->norm_epsilon());
  if (architecture == "granite") // whose files must have it
    keys.factor("logit_scale", 1);
  for (const PlainKey& own : plain_factors)
    if (const auto value = json->number(own.config))
      keys.factor(own.key, *value);
  return put_texts(out, FolderSource(folder), config).map([&] { return std::move(out); });
}

Result<std::vector<GgufTable>> gguf_rotation_tables(const std::string& folder,
                                                    const ModelConfig& config) {
  return ConfigJson::read(folder, config).map([&](const ConfigJson& json) {
    const std::string type = json.rotation_type();
    if (type == "llama3")
      return std::vector<GgufTable>{{"rope_freqs.weight", divisors(config, json.theta())}};
    if (type == long_rotation)
      return std::vector<GgufTable>{
          {"rope_factors_long.weight", numbers_in(json.rotation(), "long_factor")},
          {"rope_factors_short.weight", numbers_in(json.rotation(), "short_factor")}};
    return std::vector<GgufTable>();
  });
}

} // namespace paceline::models
