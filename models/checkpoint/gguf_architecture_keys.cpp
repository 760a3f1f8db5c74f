#include "models/checkpoint/gguf_architecture_keys.hpp"

#include "models/checkpoint/files.hpp"
#include "models/checkpoint/gguf_translation.hpp"
#include "models/families.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

namespace paceline::models {
namespace json = boost::json;
namespace {

constexpr const char* long_rotation = "longrope"; ///< "su" in older files.

std::optional<double> number_in(const json::object* object, std::string_view key) {
  const json::value* value = object ? object->if_contains(key) : nullptr;
  return value && value->is_number() ? std::optional(value->to_number<double>()) : std::nullopt;
}

const json::object* object_below(const json::object* object, std::string_view key) {
  const json::value* value = object ? object->if_contains(key) : nullptr;
  return value ? value->if_object() : nullptr;
}

std::vector<float> numbers_in(const json::object* object, std::string_view key) {
  std::vector<float> out;
  const json::value* list = object ? object->if_contains(key) : nullptr;
  if (list && list->is_array())
    for (const json::value& value : list->get_array())
      out.push_back(value.is_number() ? value.to_number<float>() : 0);
  return out;
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

  /// Returns a number by its usual name, or by the family's own.
  std::optional<double> number(std::string_view key) const {
    for (const auto& [usual, own] : family_->keys)
      if (key == usual && object_.contains(own))
        return number_in(&object_, own);
    return number_in(&object_, key);
  }

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
  /// Returns whether heads of some layers are turned in a part only, by zeros among the
  /// frequencies.
  bool stands_still() const { return family_->rope.proportional > 0; }
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
  void flag(std::string_view key, bool value) { into_.put(prefix_ + std::string(key), value); }
  void flags(std::string_view key, const std::vector<bool>& values) {
    into_.put(prefix_ + std::string(key), values);
  }
  void sizes(std::string_view key, const std::vector<std::int32_t>& values) {
    into_.put(prefix_ + std::string(key), values);
  }
  /// Puts a size that every layer has for itself: as one if all have the same.
  void of_layers(std::string_view key, const std::vector<std::int32_t>& values) {
    if (std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end())
      return size(key, values.front());
    sizes(key, values);
  }
  void text(std::string_view key, std::string_view value) {
    into_.put(prefix_ + std::string(key), value);
  }

  bool is(std::string_view architecture) const {
    return prefix_ == fmt::format("{}.", architecture);
  }
  bool is_qwen35() const { return is("qwen35") || is("qwen35moe"); }
  bool is_nemotron() const { return is("nemotron_h") || is("nemotron_h_moe"); }

private:
  GgufMetadata& into_;
  std::string prefix_;
};

/// Returns a number of every layer.
template <class F>
std::vector<std::int32_t> in_layers(const ModelConfig& config, const F& number) {
  std::vector<std::int32_t> out;
  for (int layer = 0; layer < config.layers; ++layer)
    out.push_back(number(layer));
  return out;
}

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

/// Puts heads, which some architectures have for every layer: one without attention has no keys.
void put_heads(ArchitectureKeys& keys, const ModelConfig& config) {
  const bool lists = config.convolution || (config.recurrence && config.recurrence->sums());
  keys.size("attention.head_count", config.heads);
  keys.of_layers("attention.head_count_kv", in_layers(config, [&](int layer) {
                   return lists && !config.attends(layer) ? 0 : config.kv_heads_in(layer);
                 }));
  const int head = config.head_dim_in(config.layers - 1);
  for (const char* key : {"attention.key_length", "attention.value_length"})
    keys.size(key, head);
  if (!keys.is("gemma4"))
    return;
  for (const char* key : {"attention.key_length_swa", "attention.value_length_swa"})
    keys.size(key, config.head_dim);
}

void put_shape(ArchitectureKeys& keys, const ModelConfig& config) {
  keys.size("vocab_size", config.vocabulary);
  keys.size("context_length", config.context);
  keys.size("embedding_length", config.hidden);
  keys.size("block_count", config.layers);
  keys.of_layers("feed_forward_length", in_layers(config, [&](int layer) {
                   const MixtureConfig* mixture =
                       keys.is_nemotron() ? config.mixture_in(layer) : nullptr;
                   return mixture ? mixture->ffn : config.ffn_in(layer);
                 }));
  put_heads(keys, config);
  put_windows(keys, config);
  if (!keys.is("gemma4"))
    return;
  keys.size("embedding_length_per_layer_input", config.layer_inputs);
  keys.size("attention.shared_kv_layers",
            int(std::ranges::count_if(config.mixers,
                                      [](const auto& layer) { return layer.keys_of >= 0; })));
}

/// Puts the router's options. Of most architectures they are known, and are not said.
void put_router(ArchitectureKeys& keys, const MixtureConfig& mixture) {
  constexpr int sigmoid = 2;
  if (mixture.router.scores != gpu::RouterScores::sigmoid)
    return;
  const auto dense = std::ranges::find(mixture.layers, true) - mixture.layers.begin();
  keys.size("expert_gating_func", sigmoid);
  if (!keys.is_nemotron()) // whose widths tell layers apart
    keys.size("leading_dense_block_count", int(dense));
  if (keys.is("lfm2moe"))
    return;
  keys.size("expert_shared_count", keys.is_nemotron() ? 1 : mixture.shared_ffn / mixture.ffn);
  keys.flag("expert_weights_norm", mixture.router.normalised);
  keys.factor("expert_weights_scale", mixture.router.scale);
  if (mixture.router.groups == 1)
    return;
  keys.size("expert_group_count", mixture.router.groups);
  keys.size("expert_group_used_count", mixture.router.groups_used);
}

void put_mixture(ArchitectureKeys& keys, const MixtureConfig& mixture) {
  keys.size("expert_count", mixture.experts);
  keys.size("expert_used_count", mixture.top_k);
  keys.size("expert_feed_forward_length", mixture.ffn);
  put_router(keys, mixture);
  const bool counted = mixture.router.scores == gpu::RouterScores::sigmoid && !keys.is_nemotron();
  if (mixture.shared_ffn > 0 && !counted && !mixture.apart)
    keys.size("expert_shared_feed_forward_length", mixture.shared_ffn);
}

/// Puts the sizes of recurrences, and which layers have one, if heads do not tell.
void put_recurrence(ArchitectureKeys& keys, const ModelConfig& config) {
  const gpu::Recurrence& rule = config.recurrence->rule;
  keys.size("ssm.conv_kernel", rule.taps);
  keys.size("ssm.state_size", rule.key_dim);
  keys.size("ssm.group_count", rule.key_heads);
  keys.size("ssm.time_step_rank", rule.value_heads);
  keys.size("ssm.inner_size", rule.values());
  if (keys.is("granitehybrid")) {
    const auto attends = std::ranges::find(config.mixers, Mixer::attention, &LayerConfig::mixer);
    keys.flag("rope.scaling.finetuned", attends != config.mixers.end() && attends->rope >= 0);
    if (!config.mixture) // the width of dense layers there, too
      keys.size("expert_shared_feed_forward_length", config.ffn);
  }
  if (config.recurrence->sums())
    return;
  std::vector<bool> recurrent;
  for (int layer = 0; layer < config.layers; ++layer)
    recurrent.push_back(config.is_recurrent(layer));
  keys.flags("attention.recurrent_layers", recurrent);
}

/// Puts the parts of a rotation that images turn by positions of their own, and texts by one.
void put_sections(ArchitectureKeys& keys, const ConfigJson& json) {
  std::vector<std::int32_t> sections;
  for (const float pairs : numbers_in(json.rotation(), "mrope_section"))
    sections.push_back(std::int32_t(pairs));
  if (sections.empty())
    sections = {11, 11, 10};
  sections.resize(4);
  keys.sizes("rope.dimension_sections", sections);
}

/// Puts the term under the root of norms, which Nemotron-H's files have under both names.
void put_norms(ArchitectureKeys& keys, const ModelConfig& config, double epsilon) {
  if (config.layer_norms || keys.is_nemotron())
    keys.factor("attention.layer_norm_epsilon", epsilon);
  if (!config.layer_norms)
    keys.factor("attention.layer_norm_rms_epsilon", epsilon);
}

void put_scaling(ArchitectureKeys& keys, const ModelConfig& config, const ConfigJson& json,
                 const std::string& type) {
  if (type == long_rotation) { // a tensor, and context_length is what it was stretched to
    keys.size("context_length", int(json.number("max_position_embeddings").value_or(0)));
    keys.factor("rope.scaling.attn_factor", config.ropes.front().factor);
  } else {
    keys.text("rope.scaling.type", type);
  }
  const auto put = [&](const GgufKey& factor) {
    if (const auto value = number_in(json.rotation(), factor.config))
      keys.factor(factor.key, *value);
  };
  put({"factor", "rope.scaling.factor"});
  std::ranges::for_each(gguf_yarn_factors, put);
  put({"llama_4_scaling_beta", "attention.temperature_scale"});
  constexpr const char* trained = "original_max_position_embeddings";
  const auto outside = json.number(trained); // which counts before the one within
  if (const auto value = outside ? outside : number_in(json.rotation(), trained))
    keys.size("rope.scaling.original_context_length", int(*value));
}

void put_rotation(ArchitectureKeys& keys, const ModelConfig& config, const ConfigJson& json) {
  const auto dimensions = [&](std::size_t rope) {
    return 2 * int(config.ropes[rope].frequencies.size());
  };
  keys.size("rope.dimension_count", dimensions(0));
  keys.factor("rope.freq_base", json.theta());
  if (config.ropes.size() > 1)
    keys.factor("rope.freq_base_swa", json.local_theta());
  if (keys.is("gemma4"))
    keys.size("rope.dimension_count_swa", dimensions(1));
  if (keys.is_qwen35())
    put_sections(keys, json);
  const std::string type = json.rotation_type();
  const bool tables = type == "llama3" || json.stands_still(); // gguf_rotation_tables
  if (!type.empty() && !tables)
    put_scaling(keys, config, json, type);
}

/// Returns by how much the frequency of each pair is divided: by Llama 3, or as those of Gemma 4
/// are that stand still.
std::vector<float> divisors(const ModelConfig& config, double theta) {
  constexpr double most = 1e30;
  const std::vector<float>& scaled = config.ropes.front().frequencies;
  std::vector<float> out;
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    const double own = std::pow(theta, -double(i) / double(scaled.size()));
    out.push_back(float(scaled[i] == 0 ? most : own / double(scaled[i])));
  }
  return out;
}

} // namespace

Result<void> put_architecture(GgufMetadata& into, const std::string& folder,
                              const ModelConfig& config, const std::string& architecture) {
  return ConfigJson::read(folder, config).map([&](const ConfigJson& json) {
    ArchitectureKeys keys(into, architecture);
    put_shape(keys, config);
    if (!config.ropes.empty())
      put_rotation(keys, config, json);
    put_norms(keys, config, json.norm_epsilon());
    if (keys.is("gptneox"))
      keys.flag("use_parallel_residual", config.parallel);
    if (config.mixture)
      put_mixture(keys, *config.mixture);
    if (config.recurrence)
      put_recurrence(keys, config);
    if (config.convolution)
      keys.size("shortconv.l_cache", config.convolution->taps);
    if (keys.is("granite")) // whose files must have it
      keys.factor("logit_scale", 1);
    for (const GgufKey& factor : gguf_factors)
      if (const auto value = json.number(factor.config))
        keys.factor(factor.key, *value);
  });
}

Result<std::vector<GgufTable>> gguf_rotation_tables(const std::string& folder,
                                                    const ModelConfig& config) {
  return ConfigJson::read(folder, config).map([&](const ConfigJson& json) {
    const std::string type = json.rotation_type();
    if (type == "llama3" || json.stands_still())
      return std::vector<GgufTable>{{"rope_freqs.weight", divisors(config, json.theta())}};
    if (type == long_rotation)
      return std::vector<GgufTable>{
          {"rope_factors_long.weight", numbers_in(json.rotation(), "long_factor")},
          {"rope_factors_short.weight", numbers_in(json.rotation(), "short_factor")}};
    return std::vector<GgufTable>();
  });
}

} // namespace paceline::models
