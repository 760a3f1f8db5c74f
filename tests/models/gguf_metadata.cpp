// The metadata of GGUF files, as converters write it.
#include "tests/models/gguf_checkpoint.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <fmt/format.h>

namespace paceline::models::test {
namespace json = boost::json;
namespace {

/// A key of config.json, and the one below an architecture's name that says the same.
struct Key {
  const char* config;
  const char* key;
  bool is_integer = true;
};
constexpr Key keys[] = {
    {"hidden_size", "embedding_length"},
    {"num_hidden_layers", "block_count"},
    {"num_attention_heads", "attention.head_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"head_dim", "attention.key_length"},
    {"head_dim", "attention.value_length"},
    {"intermediate_size", "feed_forward_length"},
    {"num_local_experts", "expert_count"},
    {"num_experts", "expert_count"},
    {"n_routed_experts", "expert_count"},
    {"n_shared_experts", "expert_shared_count"},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {"first_k_dense_replace", "leading_dense_block_count"},
    {"n_group", "expert_group_count"},
    {"topk_group", "expert_group_used_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"max_position_embeddings", "context_length"},
    {"sliding_window", "attention.sliding_window"},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", false},
    {"layer_norm_eps", "attention.layer_norm_epsilon", false},
    {"rope_theta", "rope.freq_base", false},
    {"rope_local_base_freq", "rope.freq_base_swa", false},
    {"routed_scaling_factor", "expert_weights_scale", false},
    {"attention_multiplier", "attention.scale", false},
    {"embedding_multiplier", "embedding_scale", false},
    {"residual_multiplier", "residual_scale", false},
    {"logits_scaling", "logit_scale", false},
    {"num_dense_layers", "leading_dense_block_count"},
    {"shared_intermediate_size", "expert_shared_feed_forward_length"},
    {"mamba_d_conv", "ssm.conv_kernel"},
    {"mamba_d_state", "ssm.state_size"},
    {"mamba_n_groups", "ssm.group_count"},
    {"mamba_n_heads", "ssm.time_step_rank"},
    {"linear_conv_kernel_dim", "ssm.conv_kernel"},
    {"linear_key_head_dim", "ssm.state_size"},
    {"linear_num_key_heads", "ssm.group_count"},
    {"linear_num_value_heads", "ssm.time_step_rank"},
    {"mtp_num_hidden_layers", "nextn_predict_layers"},
    {"num_nextn_predict_layers", "nextn_predict_layers"},
    {"attn_logit_softcapping", "attn_logit_softcapping", false},
    {"final_logit_softcapping", "final_logit_softcapping", false},
};

void put_rope(GgufWriter& out, const std::string& prefix, const json::object& config) {
  const json::value* value = config.if_contains("rope_scaling");
  if (!value)
    value = config.if_contains("rope_parameters");
  const json::object* rope = value ? value->if_object() : nullptr;
  const std::string type =
      !rope ? ""
            : std::string(
                  (rope->contains("type") ? rope->at("type") : rope->at("rope_type")).as_string());
  if (type == "linear" || type == "yarn") {
    out.put(prefix + "rope.scaling.type", type)
        .put(prefix + "rope.scaling.factor", rope->at("factor").to_number<float>());
    if (type == "yarn")
      out.put(prefix + "rope.scaling.original_context_length",
              rope->at("original_max_position_embeddings").to_number<std::uint32_t>());
    if (rope->contains("mscale_all_dim"))
      out.put(prefix + "rope.scaling.yarn_log_multiplier",
              rope->at("mscale_all_dim").to_number<float>());
    if (rope->contains("llama_4_scaling_beta"))
      out.put(prefix + "attention.temperature_scale",
              rope->at("llama_4_scaling_beta").to_number<float>());
    if (rope->contains("beta_fast"))
      out.put(prefix + "rope.scaling.yarn_beta_fast", rope->at("beta_fast").to_number<float>());
  }
}

/// Gives keys of these families their usual names.
json::object usual_keys(json::object config) {
  const std::pair<const char*, const char*> renamed[] = {
      {"n_embd", "hidden_size"},
      {"n_layer", "num_hidden_layers"},
      {"n_head", "num_attention_heads"},
      {"n_positions", "max_position_embeddings"},
      {"n_inner", "intermediate_size"},
      {"layer_norm_epsilon", "layer_norm_eps"},
      {"rotary_pct", "partial_rotary_factor"},
      {"rotary_emb_base", "rope_theta"},
  };
  for (const auto& [own, usual] : renamed)
    if (const json::value* value = config.if_contains(own); value && !value->is_null()) {
      const json::value copy = *value;
      config[usual] = copy;
    }
  if (config.contains("n_embd"))
    config.emplace("intermediate_size", 4 * config.at("n_embd").as_int64());
  return config;
}

void put_recurrence(GgufWriter& out, const std::string& prefix, const json::object& config) {
  const std::size_t heads = size_in(config, "linear_num_value_heads");
  if (heads == 0)
    return;
  out.put(prefix + "ssm.inner_size",
          std::uint32_t(heads * size_in(config, "linear_value_head_dim")));
  out.put(prefix + "ssm.conv_kernel", std::uint32_t(size_in(config, "linear_conv_kernel_dim", 4)));
  if (const json::value* types = config.if_contains("layer_types")) {
    std::vector<bool> recurrent;
    for (const json::value& type : types->as_array())
      recurrent.push_back(type == "linear_attention");
    recurrent.resize(recurrent.size() + size_in(config, "mtp_num_hidden_layers"));
    out.put(prefix + "attention.recurrent_layers", recurrent);
  } else {
    out.put(prefix + "full_attention_interval", std::uint32_t(4));
  }
}

/// Puts what Gemma 4's files say layer by layer, or in other words than config.json, and takes it
/// out of the configuration.
void put_gemma4(GgufWriter& out, const std::string& prefix, json::object& config) {
  const std::size_t layers = size_in(config, "num_hidden_layers");
  const std::size_t own = layers - size_in(config, "num_kv_shared_layers");
  const bool wide = config.contains("use_double_wide_mlp");
  std::vector<bool> slides;
  std::vector<std::int32_t> kv_heads;
  std::vector<std::int32_t> ffn;
  for (std::size_t i = 0; i < layers; ++i) {
    slides.push_back(config.at("layer_types").at(i) == "sliding_attention");
    const bool whole = !slides.back() && config.contains("num_global_key_value_heads");
    kv_heads.push_back(std::int32_t(
        size_in(config, whole ? "num_global_key_value_heads" : "num_key_value_heads")));
    ffn.push_back(std::int32_t(size_in(config, "intermediate_size") * (wide && i >= own ? 2 : 1)));
  }
  const auto put = [&](const char* key, std::size_t value) {
    out.put(prefix + key, std::uint32_t(value));
  };
  out.put(prefix + "attention.sliding_window_pattern", slides)
      .put(prefix + "attention.head_count_kv", kv_heads)
      .put(prefix + "feed_forward_length", ffn)
      .put(prefix + "rope.freq_base", 1e6f)
      .put(prefix + "rope.freq_base_swa", 1e4f);
  put("attention.shared_kv_layers", layers - own);
  put("embedding_length_per_layer_input", size_in(config, "hidden_size_per_layer_input"));
  const std::size_t head = size_in(config, "global_head_dim");
  for (const char* key : {"attention.key_length", "attention.value_length", "rope.dimension_count"})
    put(key, head);
  for (const char* key :
       {"attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"})
    put(key, size_in(config, "head_dim"));
  std::vector<float> divisors(head / 2, 1e30f); // for those that stand still
  std::fill_n(divisors.begin(), head / 8, 1.0f);
  out.tensor("rope_freqs.weight", {divisors.size()}, divisors);
  for (const char* key : {"head_dim", "num_key_value_heads", "intermediate_size"})
    config.erase(key);
  if (const json::value* used = config.if_contains("top_k_experts"))
    put("expert_used_count", used->to_number<std::size_t>());
}

/// Puts what files of models with recurrent layers among those with attention say of them: these
/// have no keys. Takes it out of the configuration.
void put_hybrid(GgufWriter& out, const std::string& prefix, json::object& config) {
  std::vector<std::int32_t> kv_heads;
  for (const json::value& type : config.at("layer_types").as_array()) {
    const bool attends = type == "attention" || type == "full_attention";
    kv_heads.push_back(attends ? std::int32_t(size_in(config, "num_key_value_heads")) : 0);
  }
  out.put(prefix + "attention.head_count_kv", kv_heads);
  config.erase("num_key_value_heads");
  if (config.contains("mamba_n_heads")) {
    out.put(prefix + "ssm.inner_size",
            std::uint32_t(size_in(config, "mamba_expand") * size_in(config, "hidden_size")));
    out.put(prefix + "rope.scaling.finetuned", config.at("position_embedding_type") == "rope");
  } else if (!config.contains("num_experts")) { // two thirds of the width, in whole steps
    const std::size_t step = size_in(config, "block_multiple_of");
    config["intermediate_size"] =
        (size_in(config, "intermediate_size") * 2 / 3 + step - 1) / step * step;
  }
  if (!config.contains("mamba_n_heads"))
    out.put(prefix + "shortconv.l_cache", std::uint32_t(size_in(config, "conv_L_cache", 3)));
}

/// Puts what files of Nemotron-H say of its layers, and takes it out of the configuration: those
/// with keys have attention, and those with units are feed-forwards.
void put_nemotron(GgufWriter& out, const std::string& prefix, json::object& config) {
  std::string pattern;
  if (const json::value* letters = config.if_contains("hybrid_override_pattern"))
    pattern = letters->as_string();
  const bool mixes = pattern.find('E') != pattern.npos;
  const std::size_t units = size_in(config, mixes ? "moe_intermediate_size" : "intermediate_size");
  std::vector<std::int32_t> kv_heads;
  std::vector<std::int32_t> ffn;
  for (const char letter : pattern) {
    kv_heads.push_back(letter == '*' ? std::int32_t(size_in(config, "num_key_value_heads")) : 0);
    ffn.push_back(letter == '-' || letter == 'E' ? std::int32_t(units) : 0);
  }
  out.put(prefix + "attention.head_count_kv", kv_heads).put(prefix + "feed_forward_length", ffn);
  const auto put = [&](const char* key, std::size_t value) {
    out.put(prefix + key, std::uint32_t(value));
  };
  const std::size_t heads = size_in(config, "mamba_num_heads");
  put("ssm.inner_size", heads * size_in(config, "mamba_head_dim"));
  put("ssm.time_step_rank", heads);
  put("ssm.conv_kernel", size_in(config, "conv_kernel"));
  put("ssm.state_size", size_in(config, "ssm_state_size"));
  put("ssm.group_count", size_in(config, "n_groups"));
  if (mixes) {
    put("expert_shared_feed_forward_length",
        size_in(config, "moe_shared_expert_intermediate_size"));
    out.put(prefix + "expert_weights_norm", config.at("norm_topk_prob").as_bool());
    config.erase("rms_norm_eps"); // Its files have another word for it.
  }
  for (const char* key : {"num_key_value_heads", "intermediate_size"})
    config.erase(key);
}

} // namespace

std::size_t size_in(const json::object& config, const char* key, std::size_t absent) {
  const json::value* value = config.if_contains(key);
  return value ? value->to_number<std::size_t>() : absent;
}

GgufWriter gguf_metadata(const std::string& architecture, json::object config) {
  GgufWriter out;
  if (const json::value* rope = config.if_contains("rope_parameters"))
    for (const auto& [key, value] : json::object(rope->as_object()))
      config.emplace(key, value);
  config = usual_keys(std::move(config));
  const std::size_t drafts =
      size_in(config, "mtp_num_hidden_layers") + size_in(config, "num_nextn_predict_layers");
  if (const json::value* layers = config.if_contains("num_hidden_layers"))
    config["num_hidden_layers"] = layers->to_number<std::size_t>() + drafts;
  const std::string prefix = architecture + ".";
  out.put("general.architecture", architecture);
  if (architecture == "gemma4")
    put_gemma4(out, prefix, config);
  if (architecture == "granitehybrid" || architecture.starts_with("lfm2"))
    put_hybrid(out, prefix, config);
  if (architecture.starts_with("nemotron_h"))
    put_nemotron(out, prefix, config);
  for (const Key& key : keys)
    if (const json::value* value = config.if_contains(key.config); value && !value->is_null()) {
      if (key.is_integer)
        out.put(prefix + key.key, value->to_number<std::uint32_t>());
      else
        out.put(prefix + key.key, value->to_number<float>());
    }
  put_rope(out, prefix, config);
  put_recurrence(out, prefix, config);
  const json::value* share = config.if_contains("partial_rotary_factor");
  if (share || architecture == "glm4moe") {
    const double head = config.contains("head_dim")
                            ? config.at("head_dim").to_number<double>()
                            : config.at("hidden_size").to_number<double>() /
                                  config.at("num_attention_heads").to_number<double>();
    out.put(prefix + "rope.dimension_count",
            std::uint32_t((share ? share->to_number<double>() : 0.5) * head));
  }
  if (architecture == "lfm2moe")
    out.put(prefix + "expert_gating_func", std::uint32_t(2));
  if (architecture == "glm4moe" || architecture == "dots1")
    out.put(prefix + "expert_gating_func", std::uint32_t(2))
        .put(prefix + "expert_weights_norm", config.at("norm_topk_prob").as_bool());
  if (const json::value* parallel = config.if_contains("use_parallel_residual"))
    out.put(prefix + "use_parallel_residual", parallel->as_bool());
  if (const json::value* pattern = config.if_contains("sliding_window_pattern"))
    out.put(prefix + "attention.sliding_window_pattern", pattern->to_number<std::uint32_t>());
  return out;
}

} // namespace paceline::models::test
