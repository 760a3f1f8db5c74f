#include "models/family_options.hpp"

#include "gpu/limits.hpp"
#include "models/common_options.hpp"
#include "models/limits.hpp"
#include "models/rope.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace paceline::models {
namespace json = boost::json;

void read_mistral(text::JsonFields& fields, ModelConfig& c) {
  const bool third = fields.string("model_type", "") == "ministral3";
  const int window = window_of(fields, third ? 0 : 4096);
  set_windows(fields, c, window, [](int) { return true; });
}

void read_qwen(text::JsonFields& fields, ModelConfig& c) {
  const bool slides = fields.boolean("use_sliding_window", false);
  const int window = window_of(fields, 4096);
  const auto whole = fields.integer("max_window_layers", 0, limits::layers_max, 28);
  set_windows(fields, c, slides ? window : 0, [&](int layer) { return layer >= whole; });
}

void read_qwen2(text::JsonFields& fields, ModelConfig& c) {
  read_qwen(fields, c);
  c.qkv_bias = true;
  c.attention_out_bias = false;
}

/// Reads the options of Mixtral, whose layers are all mixtures.
void read_mixtral(text::JsonFields& fields, ModelConfig& c) {
  const int window = window_of(fields, 0);
  set_windows(fields, c, window, [](int) { return true; });
  read_mixture(fields, c, "num_local_experts", c.ffn, [](int) { return true; });
  c.mixture->router.normalised = true;
}

namespace {

/// Reads the mixtures of Qwen's models. Every nth layer has one, unless it is listed as dense.
void read_qwen_mixture(text::JsonFields& fields, ModelConfig& c, int ffn_absent,
                       bool normalised = false) {
  const auto step = fields.integer("decoder_sparse_step", 1, limits::layers_max, 1);
  const json::value* list = fields.find("mlp_only_layers");
  if (list && !list->is_null() && !list->is_array())
    fields.wrong(ErrorCode::corrupt, "mlp_only_layers is not a list", "");
  const bool listed = list && list->is_array();
  read_mixture(fields, c, "num_experts", width_of(fields, "moe_intermediate_size", ffn_absent),
               [&](int layer) {
                 const bool dense =
                     listed && std::ranges::count(list->get_array(), json::value(layer)) > 0;
                 return !dense && (layer + 1) % step == 0;
               });
  c.mixture->router.normalised = fields.boolean("norm_topk_prob", normalised);
}

} // namespace

void read_qwen3_moe(text::JsonFields& fields, ModelConfig& c) {
  const bool slides = fields.boolean("use_sliding_window", false);
  const int window = window_of(fields, 4096);
  set_windows(fields, c, slides ? window : 0, [](int) { return true; });
  read_qwen_mixture(fields, c, 768);
}

/// Reads the options of Qwen 2 MoE. If layers have windows, every other one of the first has.
void read_qwen2_moe(text::JsonFields& fields, ModelConfig& c) {
  const bool slides = fields.boolean("use_sliding_window", false);
  const int window = window_of(fields, 4096);
  const auto first = fields.integer("max_window_layers", 0, limits::layers_max, 28);
  set_windows(fields, c, slides ? window : 0,
              [&](int layer) { return layer < first && layer % 2 == 0; });
  c.qkv_bias = fields.boolean("qkv_bias", true);
  c.attention_out_bias = false;
  read_qwen_mixture(fields, c, 1408);
  c.mixture->shared_ffn = width_of(fields, "shared_expert_intermediate_size", 5632);
  c.mixture->shared_gate = true;
}

namespace {

/// Reads mixtures whose routers are those of DeepSeek-V3: behind the first layers, with a shared
/// expert as wide as several others.
void read_sigmoid_mixture(text::JsonFields& fields, ModelConfig& c, int shared, bool normalised) {
  const auto first = fields.integer("first_k_dense_replace", 0, limits::layers_max, shared);
  const int ffn = width_of(fields, "moe_intermediate_size", 1408);
  read_mixture(fields, c, "n_routed_experts", ffn, [&](int layer) { return layer >= first; });
  const auto most = 8 * limits::hidden_max / ffn; // as wide as a dense layer may be
  const auto count = fields.integer("n_shared_experts", 0, most, std::min(shared, most));
  c.mixture->shared_ffn = int(count) * ffn;
  c.mixture->choice_bias = true;
  read_sigmoid_router(fields, *c.mixture, normalised);
}

} // namespace

/// Reads the options of GLM-4.5 and 4.6, whose files have a layer for drafts at the end.
void read_glm4_moe(text::JsonFields& fields, ModelConfig& c) {
  read_sigmoid_mixture(fields, c, 1, true);
  c.qk_norm = fields.boolean("use_qk_norm", false) ? QkNorm::per_head : QkNorm::none;
  c.attention_out_bias = false;
  c.draft_blocks = int(fields.integer("num_nextn_predict_layers", 0, limits::layers_max, 0));
}

void read_dots1(text::JsonFields& fields, ModelConfig& c) {
  const int window = window_of(fields, 4096);
  const auto whole = fields.integer("max_window_layers", 0, limits::layers_max, 62);
  set_windows(fields, c, window, [&](int layer) { return layer >= whole; });
  read_sigmoid_mixture(fields, c, 0, false);
}

void read_olmoe(text::JsonFields& fields, ModelConfig& c) {
  read_mixture(fields, c, "num_experts", c.ffn, [](int) { return true; });
  c.mixture->router.normalised = fields.boolean("norm_topk_prob", false);
}

/// Reads the options of gpt-oss. Every other layer has a window, from the first on. The file may
/// name another activation, which the reference does not use.
void read_gpt_oss(text::JsonFields& fields, ModelConfig& c) {
  const int window = window_of(fields, 128);
  set_windows(fields, c, window, [](int layer) { return layer % 2 == 0; });
  c.qkv_bias = c.attention_out_bias = fields.boolean("attention_bias", true);
  c.sinks = true;
  c.gating = {gpu::Activation::clamped_silu, float(fields.number("swiglu_alpha", 1e-3, 1e3, 1.702)),
              float(fields.number("swiglu_limit", 1e-3, 1e6, 7))};
  read_mixture(fields, c, "num_local_experts", c.ffn, [](int) { return true; });
  c.mixture->router.normalised = true;
  c.mixture->biases = true;
}

/// Reads the options of Qwen 3.5, three of whose four layers are recurrent.
void read_qwen3_5(text::JsonFields& fields, ModelConfig& c) {
  const auto heads = [&](const char* key, int absent) {
    return int(fields.integer(key, 1, limits::heads_max, absent));
  };
  const auto dims = [&](const char* key) {
    return int(fields.integer(key, 1, gpu::limits::state_dim_max, 128));
  };
  RecurrenceConfig recurrence;
  gpu::Recurrence& rule = recurrence.rule;
  rule.key_heads = heads("linear_num_key_heads", 16);
  rule.value_heads = heads("linear_num_value_heads", 32);
  rule.key_dim = dims("linear_key_head_dim");
  rule.value_dim = dims("linear_value_head_dim");
  rule.taps = int(fields.integer("linear_conv_kernel_dim", 1, gpu::limits::state_taps_max, 4));
  check_recurrence(fields, rule, "linear_num_value_heads", "linear_num_key_heads");
  recurrence.norm_width = rule.value_dim;
  recurrence.norm_epsilon = c.norm_epsilon;
  c.recurrence = recurrence;
  c.output_gate = true;
  c.draft_blocks = int(fields.integer("mtp_num_hidden_layers", 0, limits::layers_max, 0));
  const auto interval = fields.integer("full_attention_interval", 1, limits::layers_max, 4);
  const std::vector<int> types = layer_types(fields, c, {"full_attention", "linear_attention"});
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool attends = types[i] < 0 ? (int(i) + 1) % interval == 0 : types[i] == 0;
    c.mixers[i].mixer = attends ? Mixer::attention : Mixer::recurrence;
  }
}

void read_qwen3_5_moe(text::JsonFields& fields, ModelConfig& c) {
  read_qwen3_5(fields, c);
  read_mixture(fields, c, "num_experts", width_of(fields, "moe_intermediate_size", 512),
               [](int) { return true; });
  c.mixture->router.normalised = true;
  c.mixture->shared_ffn = width_of(fields, "shared_expert_intermediate_size", 512);
  c.mixture->shared_gate = true;
}

void read_qwen3_next(text::JsonFields& fields, ModelConfig& c) {
  read_qwen3_5(fields, c);
  read_qwen_mixture(fields, c, 512, true);
  c.mixture->shared_ffn = width_of(fields, "shared_expert_intermediate_size", 512);
  c.mixture->shared_gate = true;
}

void read_phi3(text::JsonFields& fields, ModelConfig& c) {
  const int window = window_of(fields, 0);
  set_windows(fields, c, window, [](int) { return true; });
}

/// Reads which layers rotate: a list of ones and zeros, or all but every nth.
void read_smollm3(text::JsonFields& fields, ModelConfig& c) {
  const auto interval = fields.integer("no_rope_layer_interval", 1, limits::layers_max, 4);
  const json::value* list = fields.find("no_rope_layers");
  const bool slides = fields.boolean("use_sliding_window", false);
  const int window = window_of(fields, 0);
  if (list && (!list->is_array() || list->get_array().size() < std::size_t(c.layers)))
    return fields.wrong(ErrorCode::corrupt, "no_rope_layers does not list every layer", "");
  for (int i = 0; i < c.layers; ++i) {
    const bool rotates = list ? list->get_array()[std::size_t(i)] != 0 : (i + 1) % interval != 0;
    c.mixers[std::size_t(i)].rope = rotates ? 0 : -1;
  }
  set_windows(fields, c, slides ? window : 0,
              [&](int layer) { return c.mixers[std::size_t(layer)].rope < 0; });
}

/// Reads OLMo 3's configuration. Layers with a window rotate unscaled.
void read_olmo3(text::JsonFields& fields, ModelConfig& c) {
  const int window = window_of(fields, 4096);
  set_windows(fields, c, window, [](int layer) { return (layer + 1) % 4 != 0; });
  rotate_windows_apart(fields, c, olmo3_theta);
}

} // namespace paceline::models
