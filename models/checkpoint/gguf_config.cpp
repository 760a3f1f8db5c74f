#include "models/checkpoint/gguf_config.hpp"

#include "models/limits.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::models {
namespace json = boost::json;
namespace {

constexpr GgufArchitecture known_architectures[] = {
    {"dots1", "Dots1ForCausalLM", false, "ffn_norm", 2},
    {"gemma2", "Gemma2ForCausalLM"},
    {"gemma3", "Gemma3ForCausalLM"},
    {"gemma4", "Gemma4ForCausalLM", false, "ffn_norm", 1, false, ""},
    {"glm4moe", "Glm4MoeForCausalLM", false, "post_attention_norm", 2},
    {"gpt-oss", "GptOssForCausalLM", false, "post_attention_norm", 3},
    {"gpt2", "GPT2LMHeadModel", false, "ffn_norm", 1, true},
    {"gptneox", "GPTNeoXForCausalLM", false, "ffn_norm", 1, true},
    {"granite", "GraniteForCausalLM", true},
    {"granitehybrid", "GraniteMoeHybridForCausalLM", true},
    {"granitemoe", "GraniteMoeSharedForCausalLM", true},
    {"lfm2", "Lfm2ForCausalLM"},
    {"lfm2moe", "Lfm2MoeForCausalLM", false, "ffn_norm", 2},
    {"llama", "LlamaForCausalLM", true},
    {"mistral3", "MistralForCausalLM", true},
    {"olmo2", "Olmo2ForCausalLM"},
    {"olmoe", "OlmoeForCausalLM"},
    {"phi3", "Phi3ForCausalLM"},
    {"qwen2", "Qwen2ForCausalLM"},
    {"qwen2moe", "Qwen2MoeForCausalLM"},
    {"qwen3", "Qwen3ForCausalLM"},
    {"qwen35", "Qwen3_5ForCausalLM", false, "post_attention_norm"},
    {"qwen35moe", "Qwen3_5MoeForCausalLM", false, "post_attention_norm"},
    {"qwen3moe", "Qwen3MoeForCausalLM"},
    {"qwen3next", "Qwen3NextForCausalLM", false, "post_attention_norm"},
    {"smollm3", "SmolLM3ForCausalLM", true},
};

/// A key below the architecture's name, and what config.json calls it.
struct Renamed {
  const char* config;
  const char* key;
};
constexpr Renamed renamed[] = {
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
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
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
    {"linear_conv_kernel_dim", "ssm.conv_kernel"},
    {"linear_key_head_dim", "ssm.state_size"},
    {"linear_num_key_heads", "ssm.group_count"},
    {"linear_num_value_heads", "ssm.time_step_rank"},
    {"clip_qkv", "attention.clamp_kqv"},
    {"alibi", "attention.max_alibi_bias"},
    {"attn_temperature_tuning", "attention.temperature_scale"},
    {"attention_multiplier", "attention.scale"},
    {"logits_scaling", "logit_scale"},
    {"residual_multiplier", "residual_scale"},
    {"embedding_multiplier", "embedding_scale"},
};
constexpr Renamed of_rope[] = {
    {"original_max_position_embeddings", "rope.scaling.original_context_length"},
    {"beta_fast", "rope.scaling.yarn_beta_fast"},
    {"beta_slow", "rope.scaling.yarn_beta_slow"},
    {"attention_factor", "rope.scaling.yarn_attn_factor"},
    {"mscale_all_dim", "rope.scaling.yarn_log_multiplier"},
};

/// Converts a value. A list with the same number for every layer becomes that number.
json::value to_json(const GgufValue& value) {
  if (const auto integer = value.integer())
    return *integer;
  if (const auto number = value.number())
    return *number;
  if (const auto flag = value.boolean())
    return *flag;
  if (const auto text = value.string())
    return json::string(*text);
  const auto list = value.integers();
  const bool alike = list && !list->empty() &&
                     std::ranges::all_of(*list, [&](auto each) { return each == list->front(); });
  return alike ? json::value(list->front()) : json::array();
}

/// Translates the metadata into the words of config.json, which are then read like one.
class Translation {
public:
  Translation(const GgufFiles& files, const GgufArchitecture& architecture)
      : files_(files), architecture_(architecture) {}

  Result<ModelConfig> read() {
    for (const Renamed& entry : renamed)
      put(config_, entry);
    const bool windowed = translate_windows();
    // The name "llama" stands for Llama, for Mistral, of which only Mistral has windows, and for
    // Mixtral; "olmo2" for OLMo 2 and 3, of which only OLMo 3 has any.
    const bool llama = is("llama");
    const bool mixtral = translate_experts(llama);
    config_["architectures"] = json::array{mixtral                   ? "MixtralForCausalLM"
                                           : windowed && llama       ? "MistralForCausalLM"
                                           : windowed && is("olmo2") ? "Olmo3ForCausalLM"
                                                                     : architecture_.family};
    translate_draft_blocks();
    if (is("granitehybrid") || is("lfm2") || is("lfm2moe"))
      translate_hybrid();
    else
      translate_recurrence();
    if (is("gemma4"))
      translate_gemma4();
    translate_shape();
    if (!is("gemma4"))
      translate_rope();
    config_["tie_word_embeddings"] = files_.tensor("output.weight") == nullptr;
    if (architecture_.layer_norms)
      put(config_, {"rms_norm_eps", "attention.layer_norm_epsilon"});
    if (!config_.contains("rms_norm_eps"))
      wrong(spelled_["rms_norm_eps"] + " is missing");
    if (error_)
      return tl::unexpected(*error_);
    return read_config(text::shown_path(files_.path()), config_, spelled_)
        .and_then([&](ModelConfig&& config) { return finish(std::move(config)); });
  }

private:
  std::string key(std::string_view below) const {
    return fmt::format("{}.{}", architecture_.name, below);
  }
  bool is(std::string_view architecture) const { return architecture_.name == architecture; }
  const GgufValue* find(std::string_view below) const { return files_.find(key(below)); }
  double number(std::string_view below, double absent) {
    const auto out = files_.number(key(below));
    if (!out && !error_)
      error_ = out.error();
    return out ? out->value_or(absent) : absent;
  }
  /// Returns what was put already; 0: it is not an integer, which read_config will report.
  std::int64_t stated(const char* config) const {
    const json::value* value = config_.if_contains(config);
    return value && value->is_int64() ? value->get_int64() : 0;
  }
  void wrong(const std::string& what, ErrorCode code = ErrorCode::corrupt,
             std::string_view hint = "") {
    if (!error_)
      error_ = files_.wrong(what, {}, code, hint).value();
  }

  void put(json::object& into, const Renamed& entry) {
    spelled_[entry.config] = key(entry.key);
    if (const GgufValue* value = find(entry.key))
      into[entry.config] = to_json(*value);
  }

  /// Translates the number of experts; returns whether the model is Mixtral. Many files do not say
  /// whether the weights of a row's experts add up to one.
  bool translate_experts(bool llama) {
    const bool mixtral = llama && number("expert_count", 0) > 0;
    const bool granite = is("granitemoe") || is("granitehybrid");
    put(config_, {llama || granite || architecture_.gating == 3 ? "num_local_experts"
                  : architecture_.gating == 2 && !is("lfm2moe") ? "n_routed_experts"
                                                                : "num_experts",
                  "expert_count"});
    if (granite) {
      config_.emplace("num_local_experts", 0); // A file without experts does not mention them.
      config_.erase("shared_expert_intermediate_size");
      put(config_, {"shared_intermediate_size", "expert_shared_feed_forward_length"});
    }
    config_["norm_topk_prob"] = is("qwen3moe") || is("qwen3next") || is("lfm2moe");
    put(config_, {"norm_topk_prob", "expert_weights_norm"});
    const double known = architecture_.gating;
    if (number("expert_gating_func", known) != known)
      wrong(fmt::format("{} is not {}, which is not known for {}", key("expert_gating_func"), known,
                        architecture_.name),
            ErrorCode::unsupported, "use a model whose router is that of others of its kind");
    return mixtral;
  }

  /// Takes the blocks that draft from the number of layers, which counts them in these files.
  void translate_draft_blocks() {
    const std::int64_t blocks = stated("num_nextn_predict_layers");
    put(config_, {"mtp_num_hidden_layers", "nextn_predict_layers"}); // Qwen's name for it.
    if (blocks > 0 && stated("num_hidden_layers") > 0)
      config_["num_hidden_layers"] = stated("num_hidden_layers") - blocks;
    if (is("glm4moe"))
      config_["use_qk_norm"] = files_.tensor("blk.0.attn_q_norm.weight") != nullptr;
  }

  /// Translates recurrent layers, of which a file may have a list in place of an interval.
  void translate_recurrence() {
    if (!find("ssm.inner_size"))
      return;
    spelled_["linear_value_head_dim"] = key("ssm.inner_size");
    const auto inner = files_.integer(key("ssm.inner_size"));
    const std::int64_t heads = stated("linear_num_value_heads");
    if (!inner || heads <= 0 || **inner % heads != 0)
      return wrong(fmt::format("{} is not a multiple of {}", key("ssm.inner_size"),
                               key("ssm.time_step_rank")));
    config_["linear_value_head_dim"] = **inner / heads;
    const GgufValue* list = find("attention.recurrent_layers");
    if (!list)
      return;
    spelled_["layer_types"] = key("attention.recurrent_layers");
    const auto recurrent = list->integers();
    const auto layers = std::size_t(std::max<std::int64_t>(0, stated("num_hidden_layers")));
    if (!recurrent || recurrent->size() < layers)
      return wrong(spelled_["layer_types"] + " does not list every layer");
    json::array types;
    for (std::size_t i = 0; i < layers; ++i)
      types.push_back((*recurrent)[i] != 0 ? "linear_attention" : "full_attention");
    config_["layer_types"] = std::move(types);
  }

  /// Translates layers of which those with keys have attention, and the sizes of the others.
  void translate_hybrid() {
    const std::int64_t layers = stated("num_hidden_layers");
    if (layers < 1 || layers > limits::layers_max)
      return wrong(
          fmt::format("{} is not between 1 and {}", key("block_count"), limits::layers_max));
    const bool granite = is("granitehybrid");
    json::array types;
    std::int64_t most = 0;
    for (const std::int64_t heads : for_layers("attention.head_count_kv", std::size_t(layers))) {
      types.push_back(heads > 0 ? "full_attention" : granite ? "linear_attention" : "conv");
      most = std::max(most, heads);
    }
    config_["layer_types"] = std::move(types);
    config_["num_key_value_heads"] = std::max<std::int64_t>(1, most);
    spelled_["layer_types"] = spelled_["num_key_value_heads"];
    config_["block_auto_adjust_ff_dim"] = false; // The file has the width itself.
    if (!granite)
      return;
    const auto rotates = files_.boolean(key("rope.scaling.finetuned"));
    config_["position_embedding_type"] = rotates && rotates->value_or(true) ? "rope" : "nope";
    put(config_, {"mamba_d_conv", "ssm.conv_kernel"});
    put(config_, {"mamba_d_state", "ssm.state_size"});
    put(config_, {"mamba_n_groups", "ssm.group_count"});
    put(config_, {"mamba_n_heads", "ssm.time_step_rank"});
    const std::int64_t inner = length("ssm.inner_size", 0);
    const std::int64_t hidden = stated("hidden_size");
    const std::int64_t heads = stated("mamba_n_heads");
    spelled_["mamba_expand"] = key("ssm.inner_size");
    if (hidden < 1 || heads < 1 || inner % hidden != 0 || inner % heads != 0)
      return wrong(fmt::format("{} is not a multiple of {} and {}", key("ssm.inner_size"),
                               key("embedding_length"), key("ssm.time_step_rank")));
    config_["mamba_expand"] = inner / hidden;
    config_["mamba_d_head"] = inner / heads;
  }

  /// Translates windows; returns whether layers have one. A window of 0 counts as none.
  bool translate_windows() {
    put(config_, {"sliding_window", "attention.sliding_window"});
    const json::value* window = config_.if_contains("sliding_window");
    const bool is_set = window && *window != 0;
    if (!is_set && !(absent_means_default() && !window))
      config_["sliding_window"] = nullptr;
    const GgufValue* pattern = find("attention.sliding_window_pattern");
    if (!pattern)
      return is_set;
    spelled_["layer_types"] = key("attention.sliding_window_pattern");
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
      return wrong(spelled_["layer_types"] + " is neither a number nor a list"), is_set;
    config_["layer_types"] = std::move(types);
    return is_set;
  }

  /// Returns true for Gemma 2, which has its window even if the file does not mention one.
  bool absent_means_default() const { return is("gemma2"); }

  void translate_shape() {
    const std::int64_t heads = stated("num_attention_heads");
    const std::int64_t hidden = stated("hidden_size");
    if (!config_.contains("head_dim") && heads > 0 && hidden % heads == 0)
      config_["head_dim"] = hidden / heads;
    const double head = number("attention.key_length", heads > 0 ? double(hidden / heads) : 0);
    check_same("attention.value_length", head);
    const GgufTensor* table = files_.tensor("token_embd.weight");
    const GgufValue* tokens = files_.find("tokenizer.ggml.tokens");
    spelled_["vocab_size"] = key("vocab_size");
    config_["vocab_size"] = table    ? json::value(table->shape.front())
                            : tokens ? json::value(std::int64_t(tokens->count()))
                                     : json::value();
    if (is("gemma4"))
      config_["vocab_size_per_layer_input"] = config_["vocab_size"];
    else if (std::string_view(architecture_.name).starts_with("gemma"))
      translate_gemma(heads, hidden, head);
  }

  /// Adds what Gemma's files leave to the reader: its largest models scale attention by another
  /// length.
  void translate_gemma(std::int64_t heads, std::int64_t hidden, double head) {
    const bool third = is("gemma3");
    const double layers = number("block_count", 0);
    const bool largest = layers == (third ? 62 : 46);
    config_["query_pre_attn_scalar"] = largest && heads > 0 ? double(hidden / heads) : head;
    if (third)
      put(config_, {"rope_local_base_freq", "rope.freq_base_swa"});
  }

  /// Refuses a length that is another than what it belongs to.
  void check_same(const char* below, double length) {
    if (number(below, length) != length)
      wrong(key(below) + " is another than that of keys, which is not known",
            ErrorCode::unsupported, "use a model whose keys, values and rotations have one length");
  }

  /// Returns a list with a number for every layer; a single number stands for all. Empty: there is
  /// neither.
  std::vector<std::int64_t> for_layers(const char* below, std::size_t layers) {
    const GgufValue* value = find(below);
    if (const auto one = value ? value->integer() : std::nullopt)
      return std::vector<std::int64_t>(layers, *one);
    const auto list = value ? value->integers() : std::nullopt;
    if (!list || list->size() != layers) {
      wrong(key(below) + " does not list every layer");
      return {};
    }
    return *list;
  }
  /// Returns a length; `absent`: the file does not say it.
  std::int64_t length(const char* below, std::int64_t absent) {
    const auto out = files_.integer(key(below));
    if (!out && !error_)
      error_ = out.error();
    return out ? out->value_or(absent) : absent;
  }

  /// Translates what Gemma 4's files say layer by layer. Lengths without a suffix are those of
  /// layers that see all positions. Their rotation has its part in a tensor (slow_down).
  void translate_gemma4() {
    const std::int64_t layers = stated("num_hidden_layers");
    if (layers < 1 || layers > limits::layers_max)
      return wrong(
          fmt::format("{} is not between 1 and {}", key("block_count"), limits::layers_max));
    if (number("attention.sliding_window", 0) == 0)
      wrong(key("attention.sliding_window") + " is missing");
    const auto slides = for_layers("attention.sliding_window_pattern", std::size_t(layers));
    const auto kv_heads = for_layers("attention.head_count_kv", std::size_t(layers));
    const auto ffn = for_layers("feed_forward_length", std::size_t(layers));
    if (error_)
      return;
    const std::int64_t whole = length("attention.key_length", 0);
    const std::int64_t sliding = length("attention.key_length_swa", whole);
    check_same("rope.dimension_count", double(whole));
    for (const char* other : {"attention.value_length_swa", "rope.dimension_count_swa"})
      check_same(other, double(sliding));
    config_["global_head_dim"] = whole;
    config_["head_dim"] = sliding;
    spelled_["global_head_dim"] = key("attention.key_length");
    spelled_["head_dim"] = key("attention.key_length_swa");
    for (std::size_t i = 0; i < slides.size(); ++i)
      config_[slides[i] != 0 ? "num_key_value_heads" : "num_global_key_value_heads"] = kv_heads[i];
    config_["intermediate_size"] = ffn.front();
    config_["use_double_wide_mlp"] = ffn.back() != ffn.front();
    const auto whole_layer = std::ranges::find(slides, 0) - slides.begin();
    config_["attention_k_eq_v"] = !files_.tensor(fmt::format("blk.{}.attn_v.weight", whole_layer));
    config_.emplace("hidden_size_per_layer_input", 0);
    config_["enable_moe_block"] = number("expert_count", 0) > 0;
    const auto turning = [&](const char* base, double absent) {
      return json::object{{"rope_type", "default"}, {"rope_theta", number(base, absent)}};
    };
    config_["rope_parameters"] =
        json::object{{"full_attention", turning("rope.freq_base", 1e6)},
                     {"sliding_attention", turning("rope.freq_base_swa", 1e4)}};
    config_.erase("rope_theta");
    if (const auto type = files_.string(key("rope.scaling.type")); type && *type)
      if (**type != "none")
        wrong(key("rope.scaling.type") + " is not known", ErrorCode::unsupported,
              "use a model without it");
  }

  void translate_rope() {
    config_.emplace("rope_theta", 10'000); // default of the format
    const double head = config_.contains("head_dim") && config_["head_dim"].is_number()
                            ? config_["head_dim"].to_number<double>()
                            : 0;
    const double rotated = number("rope.dimension_count", head);
    spelled_["partial_rotary_factor"] = key("rope.dimension_count");
    if (head > 0) // Half more, as the product is rounded down.
      config_["partial_rotary_factor"] = rotated < head    ? (rotated + 0.5) / head
                                         : rotated == head ? 1.0
                                                           : 2.0;
    const double factor = number("rope.scaling.factor", number("rope.scale_linear", 0));
    spelled_["rope_type"] = key("rope.scaling.type");
    spelled_["factor"] = key("rope.scaling.factor");
    const auto named = files_.string(key("rope.scaling.type"));
    if (!named)
      return wrong(named.error().message);
    const bool factors = files_.tensor("rope_factors_long.weight") != nullptr;
    const std::string type = named->value_or(factors                      ? "longrope"
                                             : factor != 0 && factor != 1 ? "linear"
                                                                          : "none");
    if (type == "none") { // Families may have another rotation where config.json says nothing.
      config_["rope_scaling"] = json::object{{"rope_type", "default"}};
      return;
    }
    json::object rope{{"rope_type", type}, {"factor", factor == 0 ? 1 : factor}};
    for (const Renamed& entry : of_rope)
      put(rope, entry);
    if (rope.contains("mscale_all_dim"))
      rope["mscale"] = 1;
    if (is("mistral3")) { // Ministral 3's name for the same stands here.
      put(rope, {"llama_4_scaling_beta", "attention.temperature_scale"});
      config_.erase("attn_temperature_tuning");
    }
    if (is("gpt-oss"))
      rope["truncate"] = false; // As in its config.json; the file has no word for it.
    for (const char* one : {"rope.scaling.yarn_ext_factor", "rope.scaling.attn_factor"})
      if (number(one, 1) != 1)
        wrong(key(one) + " other than 1 is not known", ErrorCode::unsupported,
              "use a model without it");
    config_["rope_scaling"] = std::move(rope);
  }

  /// Adds to the configuration what only the tensors tell.
  Result<ModelConfig> finish(ModelConfig&& config) const {
    config.norms_plus_one = false; // The program that wrote the file has added it.
    if (config.recurrence && !config.recurrence->sums())
      config.recurrence->rule.apart = !is("qwen3next");
    int attends = 0; // the first layer with attention
    while (attends + 1 < config.layers && config.is_recurrent(attends))
      ++attends;
    const auto has_bias = [&](std::initializer_list<const char*> layers) {
      return std::ranges::any_of(layers, [&](const char* layer) {
        return files_.tensor(fmt::format("blk.{}.{}.bias", attends, layer)) != nullptr;
      });
    };
    config.qkv_bias = has_bias({"attn_q", "attn_k", "attn_v", "attn_qkv"});
    config.attention_out_bias = has_bias({"attn_output"});
    config.ffn_bias = has_bias({"ffn_gate", "ffn_up", "ffn_down"});
    const GgufTensor* divisors = files_.tensor("rope_freqs.weight");
    if (divisors && !config.ropes.empty())
      return slow_down(config.ropes.front(), *divisors).map([&] { return std::move(config); });
    return config;
  }

  /// Applies Llama 3.1's scaling, which is stored as a divisor of each pair's frequency.
  Result<void> slow_down(RopeConfig& rope, const GgufTensor& divisors) const {
    if (divisors.type != GgufType(gpu::DType::f32) ||
        divisors.bytes.size() != rope.frequencies.size() * sizeof(float))
      return files_.wrong(fmt::format("is not {} numbers of f32", rope.frequencies.size()),
                          divisors.name);
    for (std::size_t i = 0; i < rope.frequencies.size(); ++i) {
      float by = 0;
      std::memcpy(&by, divisors.bytes.data() + i * sizeof by, sizeof by);
      if (!std::isfinite(by) || by <= 0)
        return files_.wrong("holds a number that is not above 0", divisors.name);
      rope.frequencies[i] /= by;
    }
    return {};
  }

  const GgufFiles& files_;
  const GgufArchitecture& architecture_;
  json::object config_;
  text::Spellings spelled_;
  std::optional<Error> error_;
};

} // namespace

Result<const GgufArchitecture*> gguf_architecture(const GgufFiles& files) {
  const auto name = files.string("general.architecture");
  if (!name)
    return tl::unexpected(name.error());
  if (!*name)
    return files.wrong("general.architecture is missing");
  std::vector<const char*> known;
  for (const GgufArchitecture& each : known_architectures) {
    if (**name == each.name)
      return &each;
    known.push_back(each.name);
  }
  return files.wrong(fmt::format("architecture {} is not known", text::shown(**name)), {},
                     ErrorCode::unsupported,
                     fmt::format("use a model of one of {}", fmt::join(known, ", ")));
}

Result<ModelConfig> read_gguf_config(const GgufFiles& files) {
  return gguf_architecture(files).and_then([&](const GgufArchitecture* architecture) {
    return Translation(files, *architecture).read();
  });
}

} // namespace paceline::models
