#include "models/checkpoint/gguf_config.hpp"

#include "models/checkpoint/gguf_numbers.hpp"
#include "models/checkpoint/gguf_translation.hpp"
#include "models/limits.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace paceline::models {
namespace json = boost::json;
namespace {

constexpr GgufKey renamed[] = {
    {"hidden_size", "embedding_length"},
    {"num_hidden_layers", "block_count"},
    {"num_attention_heads", "attention.head_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"head_dim", "attention.key_length"},
    {"intermediate_size", "feed_forward_length"},
    {"max_position_embeddings", "context_length"},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"rope_theta", "rope.freq_base"},
    {"use_parallel_residual", "use_parallel_residual"},
    {"num_experts_per_tok", "expert_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"n_shared_experts", "expert_shared_count"},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {"num_kv_shared_layers", "attention.shared_kv_layers"},
    {"hidden_size_per_layer_input", "embedding_length_per_layer_input"},
    {"first_k_dense_replace", "leading_dense_block_count"},
    {"n_group", "expert_group_count"},
    {"topk_group", "expert_group_used_count"},
    {"routed_scaling_factor", "expert_weights_scale"},
    {"num_nextn_predict_layers", "nextn_predict_layers"},
    {"full_attention_interval", "full_attention_interval"},
    {"conv_L_cache", "shortconv.l_cache"},
    {"num_dense_layers", "leading_dense_block_count"},
    {"moe_latent_size", "moe_latent_size"},
    {"linear_conv_kernel_dim", "ssm.conv_kernel"},
    {"linear_key_head_dim", "ssm.state_size"},
    {"linear_num_key_heads", "ssm.group_count"},
    {"linear_num_value_heads", "ssm.time_step_rank"},
    {"clip_qkv", "attention.clamp_kqv"},
    {"alibi", "attention.max_alibi_bias"},
    {"attn_temperature_tuning", "attention.temperature_scale"},
};
/// Translates the metadata into the words of config.json, which are then read like one.
class Translation : private GgufTranslation {
public:
  using GgufTranslation::GgufTranslation;

  Result<ModelConfig> read() {
    for (const GgufKey& entry : renamed)
      put(entry);
    for (const GgufKey& entry : gguf_factors)
      put(entry);
    const bool windowed = translate_windows();
    // The name "llama" stands for Llama, for Mistral, of which only Mistral has windows, and for
    // Mixtral; "olmo2" for OLMo 2 and 3, of which only OLMo 3 has any.
    const bool llama = is("llama");
    const bool mixtral = translate_experts(llama);
    config["architectures"] = json::array{mixtral                   ? "MixtralForCausalLM"
                                          : windowed && llama       ? "MistralForCausalLM"
                                          : windowed && is("olmo2") ? "Olmo3ForCausalLM"
                                                                    : architecture.family};
    translate_draft_blocks();
    const bool nemotron = is("nemotron_h") || is("nemotron_h_moe");
    if (nemotron || is("granitehybrid") || is("lfm2") || is("lfm2moe"))
      translate_hybrid(*this);
    else
      translate_recurrence(*this);
    if (is("gemma4"))
      translate_gemma4();
    translate_shape();
    if (!is("gemma4") && !nemotron)
      translate_rope();
    config["tie_word_embeddings"] = files.tensor("output.weight") == nullptr;
    if (architecture.layer_norms || (nemotron && !config.contains("rms_norm_eps")))
      put({"rms_norm_eps", "attention.layer_norm_epsilon"});
    if (!config.contains("rms_norm_eps"))
      wrong(spelled["rms_norm_eps"] + " is missing");
    if (error())
      return tl::unexpected(*error());
    return read_config(text::shown_path(files.path()), config, spelled)
        .and_then([&](ModelConfig&& model) { return finish(std::move(model)); });
  }

private:
  /// Translates the number of experts; returns whether the model is Mixtral. Many files do not say
  /// whether the weights of a row's experts add up to one.
  bool translate_experts(bool llama) {
    const bool mixtral = llama && number("expert_count", 0) > 0;
    const bool granite = is("granitemoe") || is("granitehybrid");
    put({llama || granite || architecture.gating == 3 ? "num_local_experts"
         : architecture.gating == 2 && !is("lfm2moe") ? "n_routed_experts"
                                                      : "num_experts",
         "expert_count"});
    if (granite) {
      config.emplace("num_local_experts", 0); // A file without experts does not mention them.
      config.erase("shared_expert_intermediate_size");
      put({"shared_intermediate_size", "expert_shared_feed_forward_length"});
    }
    config["norm_topk_prob"] = is("qwen3moe") || is("qwen3next") || is("lfm2moe");
    put({"norm_topk_prob", "expert_weights_norm"});
    const double known = architecture.gating;
    if (number("expert_gating_func", known) != known)
      wrong(fmt::format("{} is not {}, which is not known for {}", key("expert_gating_func"), known,
                        architecture.name),
            ErrorCode::unsupported, "use a model whose router is that of others of its kind");
    return mixtral;
  }

  /// Takes the blocks that draft from the number of layers, which counts them in these files.
  void translate_draft_blocks() {
    const std::int64_t blocks = stated("num_nextn_predict_layers");
    put({"mtp_num_hidden_layers", "nextn_predict_layers"}); // Qwen's name for it.
    if (blocks > 0 && stated("num_hidden_layers") > 0)
      config["num_hidden_layers"] = stated("num_hidden_layers") - blocks;
    if (is("glm4moe"))
      config["use_qk_norm"] = files.tensor("blk.0.attn_q_norm.weight") != nullptr;
  }

  /// Translates windows; returns whether layers have one. A window of 0 counts as none.
  bool translate_windows() {
    put({"sliding_window", "attention.sliding_window"});
    const json::value* window = config.if_contains("sliding_window");
    const bool is_set = window && *window != 0;
    if (!is_set && !(absent_means_default() && !window))
      config["sliding_window"] = nullptr;
    const GgufValue* pattern = find("attention.sliding_window_pattern");
    if (!pattern)
      return is_set;
    spelled["layer_types"] = key("attention.sliding_window_pattern");
    const auto layers = number("block_count", 0);
    json::array types;
    const auto add = [&](bool slides) {
      types.push_back(slides ? "sliding_attention" : "full_attention");
    };
    if (const auto list = pattern->integers())
      for (const std::int64_t slides : *list)
        add(slides != 0);
    else if (const auto every = pattern->integer(); every && *every > 0)
      for (int i = 1; i <= layers && i <= limits::layers_max; ++i)
        add(i % *every != 0);
    else
      return wrong(spelled["layer_types"] + " is neither a number nor a list"), is_set;
    config["layer_types"] = std::move(types);
    return is_set;
  }

  /// Returns true for Gemma 2, which has its window even if the file does not mention one.
  bool absent_means_default() const { return is("gemma2"); }

  void translate_shape() {
    const std::int64_t heads = stated("num_attention_heads");
    const std::int64_t hidden = stated("hidden_size");
    if (!config.contains("head_dim") && heads > 0 && hidden % heads == 0)
      config["head_dim"] = hidden / heads;
    const double head = number("attention.key_length", heads > 0 ? double(hidden / heads) : 0);
    check_same("attention.value_length", head);
    const GgufTensor* table = files.tensor("token_embd.weight");
    const GgufValue* tokens = files.find("tokenizer.ggml.tokens");
    spelled["vocab_size"] = key("vocab_size");
    config["vocab_size"] = table    ? json::value(table->shape.front())
                           : tokens ? json::value(std::int64_t(tokens->count()))
                                    : json::value();
    if (is("gemma4"))
      config["vocab_size_per_layer_input"] = config["vocab_size"];
    else if (std::string_view(architecture.name).starts_with("gemma"))
      translate_gemma(heads, hidden, head);
  }

  /// Adds what Gemma's files leave to the reader: its largest models scale attention by another
  /// length.
  void translate_gemma(std::int64_t heads, std::int64_t hidden, double head) {
    const bool third = is("gemma3");
    const double layers = number("block_count", 0);
    const bool largest = layers == (third ? 62 : 46);
    config["query_pre_attn_scalar"] = largest && heads > 0 ? double(hidden / heads) : head;
    if (third)
      put({"rope_local_base_freq", "rope.freq_base_swa"});
  }

  /// Translates what Gemma 4's files say layer by layer. Lengths without a suffix are those of
  /// layers that see all positions. Their rotation has its part in a tensor (slow_down).
  void translate_gemma4() {
    const auto count = layers();
    if (!count)
      return;
    if (number("attention.sliding_window", 0) == 0)
      wrong(key("attention.sliding_window") + " is missing");
    const auto slides = for_layers("attention.sliding_window_pattern", *count);
    const auto kv_heads = for_layers("attention.head_count_kv", *count);
    const auto ffn = for_layers("feed_forward_length", *count);
    if (error())
      return;
    const std::int64_t whole = length("attention.key_length", 0);
    const std::int64_t sliding = length("attention.key_length_swa", whole);
    check_same("rope.dimension_count", double(whole));
    for (const char* other : {"attention.value_length_swa", "rope.dimension_count_swa"})
      check_same(other, double(sliding));
    config["global_head_dim"] = whole;
    config["head_dim"] = sliding;
    spelled["global_head_dim"] = key("attention.key_length");
    spelled["head_dim"] = key("attention.key_length_swa");
    for (std::size_t i = 0; i < slides.size(); ++i)
      config[slides[i] != 0 ? "num_key_value_heads" : "num_global_key_value_heads"] = kv_heads[i];
    config["intermediate_size"] = ffn.front();
    config["use_double_wide_mlp"] = ffn.back() != ffn.front();
    const auto whole_layer = std::ranges::find(slides, 0) - slides.begin();
    config["attention_k_eq_v"] = !files.tensor(fmt::format("blk.{}.attn_v.weight", whole_layer));
    config.emplace("hidden_size_per_layer_input", 0);
    config["enable_moe_block"] = number("expert_count", 0) > 0;
    const auto turning = [&](const char* base, double absent) {
      return json::object{{"rope_type", "default"}, {"rope_theta", number(base, absent)}};
    };
    config["rope_parameters"] =
        json::object{{"full_attention", turning("rope.freq_base", 1e6)},
                     {"sliding_attention", turning("rope.freq_base_swa", 1e4)}};
    config.erase("rope_theta");
    if (const auto type = files.string(key("rope.scaling.type")); type && *type)
      if (**type != "none")
        wrong(key("rope.scaling.type") + " is not known", ErrorCode::unsupported,
              "use a model without it");
  }

  void translate_rope() {
    config.emplace("rope_theta", 10'000); // default of the format
    const double head = config.contains("head_dim") && config["head_dim"].is_number()
                            ? config["head_dim"].to_number<double>()
                            : 0;
    const double rotated = number("rope.dimension_count", head);
    spelled["partial_rotary_factor"] = key("rope.dimension_count");
    if (head > 0) // Half more, as the product is rounded down.
      config["partial_rotary_factor"] = rotated < head    ? (rotated + 0.5) / head
                                        : rotated == head ? 1.0
                                                          : 2.0;
    const double factor = number("rope.scaling.factor", number("rope.scale_linear", 0));
    spelled["rope_type"] = key("rope.scaling.type");
    spelled["factor"] = key("rope.scaling.factor");
    const auto named = files.string(key("rope.scaling.type"));
    if (!named)
      return wrong(named.error().message);
    const GgufTensor* factors = files.tensor("rope_factors_short.weight");
    const std::string type = named->value_or(factors                      ? "longrope"
                                             : factor != 0 && factor != 1 ? "linear"
                                                                          : "none");
    if (type == "none") { // Families may have another rotation where config.json says nothing.
      config["rope_scaling"] = json::object{{"rope_type", "default"}};
      return;
    }
    json::object rope{{"rope_type", type}, {"factor", factor == 0 ? 1 : factor}};
    put(rope, {"original_max_position_embeddings", "rope.scaling.original_context_length"});
    for (const GgufKey& entry : gguf_yarn_factors)
      put(rope, entry);
    if (rope.contains("mscale_all_dim"))
      rope["mscale"] = 1;
    if (is("mistral3")) { // Ministral 3's name for the same stands here.
      put(rope, {"llama_4_scaling_beta", "attention.temperature_scale"});
      config.erase("attn_temperature_tuning");
    }
    if (is("gpt-oss"))
      rope["truncate"] = false; // As in its config.json; the file has no word for it.
    if (type == "longrope")
      translate_longrope(rope, factors);
    for (const char* one : {"rope.scaling.yarn_ext_factor", "rope.scaling.attn_factor"})
      if (number(one, 1) != 1 && type != "longrope")
        wrong(key(one) + " other than 1 is not known", ErrorCode::unsupported,
              "use a model without it");
    config["rope_scaling"] = std::move(rope);
  }

  /// Adds what files with LongRoPE have as tensors, one of which is for contexts that are not read.
  void translate_longrope(json::object& rope, const GgufTensor* factors) {
    put(rope, {"attention_factor", "rope.scaling.attn_factor"});
    spelled["short_factor"] = "rope_factors_short.weight";
    if (factors && factors->type == GgufType(gpu::DType::f32)) {
      const std::vector<float> values = values_of(*factors);
      rope["short_factor"] = json::array(values.begin(), values.end());
    }
  }

  /// Adds to the configuration what only the tensors tell.
  Result<ModelConfig> finish(ModelConfig&& model) const {
    model.norms_plus_one = false; // The program that wrote the file has added it.
    if (model.recurrence && !model.recurrence->sums())
      model.recurrence->rule.apart = !is("qwen3next");
    const auto has_bias = [&](int block, std::initializer_list<const char*> layers) {
      return std::ranges::any_of(layers, [&](const char* layer) {
        return files.tensor(fmt::format("blk.{}.{}.bias", block, layer)) != nullptr;
      });
    };
    const int attends = model.first_attending();
    const auto feeds = std::ranges::find(model.mixers, true, &LayerConfig::feeds);
    model.qkv_bias = has_bias(attends, {"attn_q", "attn_k", "attn_v", "attn_qkv"});
    model.attention_out_bias = has_bias(attends, {"attn_output"});
    model.ffn_bias =
        has_bias(int(feeds - model.mixers.begin()), {"ffn_gate", "ffn_up", "ffn_down"});
    const GgufTensor* divisors = files.tensor("rope_freqs.weight");
    if (divisors && !model.ropes.empty())
      return slow_down(model.ropes.front(), *divisors).map([&] { return std::move(model); });
    return model;
  }

  /// Applies Llama 3.1's scaling, which is stored as a divisor of each pair's frequency.
  Result<void> slow_down(RopeConfig& rope, const GgufTensor& divisors) const {
    if (divisors.type != GgufType(gpu::DType::f32) ||
        divisors.bytes.size() != rope.frequencies.size() * sizeof(float))
      return files.wrong(fmt::format("is not {} numbers of f32", rope.frequencies.size()),
                         divisors.name);
    for (std::size_t i = 0; i < rope.frequencies.size(); ++i) {
      float by = 0;
      std::memcpy(&by, divisors.bytes.data() + i * sizeof by, sizeof by);
      if (!std::isfinite(by) || by <= 0)
        return files.wrong("holds a number that is not above 0", divisors.name);
      rope.frequencies[i] /= by;
    }
    return {};
  }
};

} // namespace

Result<ModelConfig> read_gguf_config(const GgufFiles& files) {
  return gguf_architecture(files).and_then([&](const GgufArchitecture* architecture) {
    return Translation(files, *architecture).read();
  });
}

} // namespace paceline::models
