#include "models/families.hpp"

#include "gpu/limits.hpp"
#include "models/limits.hpp"
#include "models/rope.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cassert>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace paceline::models {
namespace json = boost::json;
namespace {

int window_of(text::JsonFields& fields, int absent) {
  return int(fields.integer("sliding_window", 1, limits::context_max,
                            fields.says("sliding_window") ? 0 : absent));
}

/// Calls set(layer, type) for every layer: the index in `types` of what `layer_types` lists for it,
/// or -1 if the file has no such list.
template <class F>
void for_layer_types(text::JsonFields& fields, const ModelConfig& c,
                     std::initializer_list<const char*> types, const F& set) {
  const json::value* list = fields.find("layer_types");
  const auto wrong = [&](const std::string& what) {
    fields.wrong(ErrorCode::unsupported, "layer_types " + what, "use a checkpoint of another kind");
  };
  if (list && (!list->is_array() || list->get_array().size() != std::size_t(c.layers)))
    return wrong("is not a list with an entry for every layer");
  for (int i = 0; i < c.layers; ++i) {
    if (!list) {
      set(i, -1);
      continue;
    }
    const json::value& type = list->get_array()[std::size_t(i)];
    const auto at = std::ranges::find_if(types, [&](const char* name) { return type == name; });
    if (at == types.end())
      return wrong("holds " + text::shown(json::serialize(type)) + ", which is not known");
    set(i, int(at - types.begin()));
  }
}

/// Divides layers into those with the window and those that see all positions: as `layer_types`
/// lists them, or by `sliding`.
template <class F>
void set_windows(text::JsonFields& fields, ModelConfig& c, int window, const F& sliding) {
  for_layer_types(fields, c, {"full_attention", "sliding_attention"}, [&](int i, int type) {
    const bool slides = type < 0 ? sliding(i) : type == 1;
    c.mixers[std::size_t(i)].window = slides ? window : 0;
  });
}

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

int width_of(text::JsonFields& fields, const char* key, int absent) {
  return int(fields.integer(key, 1, 8 * limits::hidden_max, absent));
}

/// Reads a mixture in the layers that `mixes` says. count: what the file calls the experts' number.
template <class F>
void read_mixture(text::JsonFields& fields, ModelConfig& c, const char* count, int ffn,
                  const F& mixes) {
  MixtureConfig mixture;
  mixture.experts = int(fields.integer(count, 1, limits::experts_max));
  mixture.top_k = int(fields.integer("num_experts_per_tok", 1, limits::experts_max));
  mixture.ffn = ffn;
  if (mixture.top_k > mixture.experts)
    fields.wrong(ErrorCode::corrupt,
                 fmt::format("num_experts_per_tok {} is more than the {} experts", mixture.top_k,
                             mixture.experts),
                 "the checkpoint contradicts itself");
  for (int i = 0; i < c.layers; ++i)
    mixture.layers.push_back(mixes(i));
  c.mixture = std::move(mixture);
}

/// Reads the options of Mixtral, whose layers are all mixtures.
void read_mixtral(text::JsonFields& fields, ModelConfig& c) {
  const int window = window_of(fields, 0);
  set_windows(fields, c, window, [](int) { return true; });
  read_mixture(fields, c, "num_local_experts", c.ffn, [](int) { return true; });
  c.mixture->router.normalised = true;
}

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

/// Reads the groups to which a router limits the experts of a row.
void read_groups(text::JsonFields& fields, MixtureConfig& mixture) {
  gpu::RouterOptions& router = mixture.router;
  router.groups = int(fields.integer("n_group", 1, gpu::limits::router_groups_max, 1));
  router.groups_used = int(fields.integer("topk_group", 1, gpu::limits::router_groups_max, 1));
  const int size = mixture.experts / router.groups;
  if (router.groups_used > router.groups || mixture.experts % router.groups != 0 ||
      (router.groups > 1 && size < 2) || mixture.top_k > router.groups_used * size)
    fields.wrong(ErrorCode::corrupt,
                 fmt::format("{} experts in {} groups ({}), of which a row goes to {} ({}), give "
                             "it no {}",
                             mixture.experts, router.groups, fields.spelled("n_group"),
                             router.groups_used, fields.spelled("topk_group"), mixture.top_k),
                 "the checkpoint contradicts itself");
}

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
  gpu::RouterOptions& router = c.mixture->router;
  router.scores = gpu::RouterScores::sigmoid;
  router.normalised = fields.boolean("norm_topk_prob", normalised);
  router.scale = float(fields.number("routed_scaling_factor", 1e-6, 1e6, 1));
  read_groups(fields, *c.mixture);
}

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
  DeltaConfig delta;
  delta.key_heads = heads("linear_num_key_heads", 16);
  delta.value_heads = heads("linear_num_value_heads", 32);
  delta.key_dim = dims("linear_key_head_dim");
  delta.value_dim = dims("linear_value_head_dim");
  delta.taps = int(fields.integer("linear_conv_kernel_dim", 1, gpu::limits::state_taps_max, 4));
  if (delta.value_heads % delta.key_heads != 0)
    fields.wrong(ErrorCode::corrupt,
                 fmt::format("{} {} is not a multiple of {} {}",
                             fields.spelled("linear_num_value_heads"), delta.value_heads,
                             fields.spelled("linear_num_key_heads"), delta.key_heads),
                 "the checkpoint contradicts itself");
  if (delta.rule().channels() + delta.rule().values() > 4 * limits::hidden_max)
    fields.wrong(ErrorCode::corrupt,
                 fmt::format("{} and {} recurrent heads are more than this build takes",
                             delta.key_heads, delta.value_heads),
                 "the checkpoint contradicts itself");
  c.delta = delta;
  c.output_gate = true;
  c.draft_blocks = int(fields.integer("mtp_num_hidden_layers", 0, limits::layers_max, 0));
  const auto interval = fields.integer("full_attention_interval", 1, limits::layers_max, 4);
  for_layer_types(fields, c, {"full_attention", "linear_attention"}, [&](int layer, int type) {
    const bool attends = type < 0 ? (layer + 1) % interval == 0 : type == 0;
    c.mixers[std::size_t(layer)].mixer = attends ? Mixer::attention : Mixer::delta_rule;
  });
}

void read_qwen3_5_moe(text::JsonFields& fields, ModelConfig& c) {
  read_qwen3_5(fields, c);
  read_mixture(fields, c, "num_experts", width_of(fields, "moe_intermediate_size", 512),
               [](int) { return true; });
  c.mixture->router.normalised = true;
  c.mixture->shared_ffn = width_of(fields, "shared_expert_intermediate_size", 512);
  c.mixture->shared_gate = true;
}

/// Reads the factors of Granite. What goes from layer to layer is kept divided by the factor of a
/// layer's outputs, so that these are added as they are: a norm gives the same of it, if its
/// epsilon is divided by the square.
void read_granite(text::JsonFields& fields, ModelConfig& c) {
  const auto factor = [&](const char* key) { return fields.number(key, 1e-4, 1e4, 1); };
  const double residual = factor("residual_multiplier");
  c.attention_scale = float(factor("attention_multiplier"));
  c.embedding_scale = float(factor("embedding_multiplier") / residual);
  c.norm_epsilon = float(double(c.norm_epsilon) / (residual * residual));
  c.logit_scale = float(1 / factor("logits_scaling"));
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

/// Returns a cap: `absent` if the file does not mention it, and none if it says null.
float read_cap(text::JsonFields& fields, const char* key, double absent) {
  return float(fields.number(key, 1e-3, 1e6, fields.says(key) ? 0 : absent));
}

void read_gemma(text::JsonFields& fields, ModelConfig& c, double logit_cap, std::int64_t pattern) {
  const double scalar = fields.number("query_pre_attn_scalar", 1e-3, 1e6, 256);
  c.attention_scale = float(1 / std::sqrt(scalar));
  c.embedding_scale = std::sqrt(float(c.hidden));
  c.logit_soft_cap = read_cap(fields, "final_logit_softcapping", logit_cap);
  const int window = window_of(fields, 4096);
  set_windows(fields, c, window, [&](int layer) { return (layer + 1) % pattern != 0; });
}

void read_gemma2(text::JsonFields& fields, ModelConfig& c) {
  read_gemma(fields, c, 30, 2);
  c.attention_soft_cap = read_cap(fields, "attn_logit_softcapping", 50);
}

/// Gives the layers that have a window a rotation of their own.
void rotate_windows_apart(text::JsonFields& fields, ModelConfig& c, double theta) {
  c.ropes.push_back(read_local_rope(fields, c, theta));
  for (LayerConfig& layer : c.mixers)
    layer.rope = layer.window > 0 ? 1 : 0;
}

constexpr double olmo3_theta = 500'000;

/// Reads OLMo 3's configuration. Layers with a window rotate unscaled.
void read_olmo3(text::JsonFields& fields, ModelConfig& c) {
  const int window = window_of(fields, 4096);
  set_windows(fields, c, window, [](int layer) { return (layer + 1) % 4 != 0; });
  rotate_windows_apart(fields, c, olmo3_theta);
}

/// Reads Gemma 3's configuration. Layers with a window have a RoPE base of their own. A cap of
/// attention is refused: files may name one, but the reference leaves it out.
void read_gemma3(text::JsonFields& fields, ModelConfig& c) {
  read_gemma(fields, c, 0, fields.integer("sliding_window_pattern", 1, limits::layers_max, 6));
  rotate_windows_apart(
      fields, c, fields.number("rope_local_base_freq", rope_theta_min, rope_theta_max, 10'000));
}

constexpr MtpTensors qwen_mtp{.prefix = "mtp.",
                              .blocks = "layers.",
                              .fusion = "fc",
                              .token_norm = "pre_fc_norm_embedding",
                              .fusion_norm = "pre_fc_norm_hidden",
                              .final_norm = "norm",
                              .embedding = "embed_tokens",
                              .head = "lm_head",
                              .goes_on_normed = true};
constexpr MtpTensors glm_mtp{.prefix = "model.layers.{}.",
                             .blocks = "",
                             .fusion = "eh_proj",
                             .token_norm = "enorm",
                             .fusion_norm = "hnorm",
                             .final_norm = "shared_head.norm",
                             .embedding = "embed_tokens",
                             .head = "shared_head.head",
                             .goes_on_normed = false};

/// Names of models with a tower that sees, as the hub's folders and newer ones have them.
const std::vector<ModelNames> beside_tower{
    {"language_model.model.",
     "language_model.lm_head",
     {"vision_tower.", "multi_modal_projector."}},
    {"model.language_model.", "lm_head", {"model.vision_tower.", "model.multi_modal_projector."}}};

constexpr ShapeDefaults gemma3_shape{
    .heads = 8, .kv_heads = 4, .vocabulary = 262'208, .context = 131'072};

constexpr BlockTensors gemma_tensors{"input_layernorm", "post_attention_layernorm",
                                     "pre_feedforward_layernorm", "post_feedforward_layernorm"};

const Family families[] = {
    {.architecture = "LlamaForCausalLM",
     .model_type = "llama",
     .models = "Llama 2 and 3, TinyLlama, SmolLM 2"},
    {.architecture = "MistralForCausalLM",
     .model_type = "mistral",
     .models = "Mistral 7B",
     .read = read_mistral},
    {.architecture = "Ministral3ForCausalLM",
     .model_type = "ministral3",
     .models = "Ministral 3 (text)",
     .norm_epsilon = 1e-5,
     .read = read_mistral},
    {.architecture = "Mistral3ForConditionalGeneration",
     .model_type = "mistral3",
     .models = "Mistral Small 3.1 and 3.2, Ministral 3 (the text part)",
     .text_config = "text_config",
     .names = beside_tower,
     .read = read_mistral},
    {.architecture = "MixtralForCausalLM",
     .model_type = "mixtral",
     .models = "Mixtral",
     .tensors = {.router = "block_sparse_moe.gate",
                 .experts = "block_sparse_moe.experts.",
                 .expert_gate = "w1",
                 .expert_up = "w3",
                 .expert_down = "w2"},
     .norm_epsilon = 1e-5,
     .rope = {.theta = 1'000'000},
     .read = read_mixtral},
    {.architecture = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .models = "Qwen 2 and 2.5",
     .read = read_qwen2},
    {.architecture = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .models = "Qwen 3",
     .qk_norm = QkNorm::per_head,
     .head_dim = 128,
     .read = read_qwen},
    {.architecture = "Qwen3_5ForCausalLM",
     .model_type = "qwen3_5_text",
     .models = "Qwen 3.5 and 3.6 (text)",
     .names = {{.others = {"mtp.", "model.visual."}}},
     .mtp = &qwen_mtp,
     .qk_norm = QkNorm::per_head,
     .norms_plus_one = true,
     .rope = {.partial = true, .rotated = 0.25},
     .head_dim = 256,
     .read = read_qwen3_5},
    {.architecture = "Qwen3_5ForConditionalGeneration",
     .model_type = "qwen3_5",
     .models = "Qwen 3.5 and 3.6 (the text part)",
     .text_config = "text_config",
     .names = {{"model.language_model.", "lm_head", {"mtp.", "model.visual."}}},
     .mtp = &qwen_mtp,
     .qk_norm = QkNorm::per_head,
     .norms_plus_one = true,
     .rope = {.partial = true, .rotated = 0.25},
     .head_dim = 256,
     .read = read_qwen3_5},
    {.architecture = "Qwen3_5MoeForCausalLM",
     .model_type = "qwen3_5_moe_text",
     .models = "Qwen 3.5 and 3.6 MoE (text)",
     .tensors = {.shared_expert = "mlp.shared_expert."},
     .names = {{.others = {"mtp.", "model.visual."}}},
     .mtp = &qwen_mtp,
     .qk_norm = QkNorm::per_head,
     .norms_plus_one = true,
     .rope = {.partial = true, .rotated = 0.25},
     .head_dim = 256,
     .read = read_qwen3_5_moe},
    {.architecture = "Qwen3_5MoeForConditionalGeneration",
     .model_type = "qwen3_5_moe",
     .models = "Qwen 3.5 and 3.6 MoE (the text part)",
     .text_config = "text_config",
     .tensors = {.shared_expert = "mlp.shared_expert."},
     .names = {{"model.language_model.", "lm_head", {"mtp.", "model.visual."}}},
     .mtp = &qwen_mtp,
     .qk_norm = QkNorm::per_head,
     .norms_plus_one = true,
     .rope = {.partial = true, .rotated = 0.25},
     .head_dim = 256,
     .read = read_qwen3_5_moe},
    {.architecture = "Qwen3NextForCausalLM",
     .model_type = "qwen3_next",
     .models = "Qwen 3 Next",
     .tensors = {.shared_expert = "mlp.shared_expert.", .joined_heads = true},
     .names = {{.others = {"mtp."}}},
     .mtp = &qwen_mtp,
     .qk_norm = QkNorm::per_head,
     .norms_plus_one = true,
     .rope = {.partial = true, .rotated = 0.25},
     .head_dim = 256,
     .read = read_qwen3_next},
    {.architecture = "Qwen2MoeForCausalLM",
     .model_type = "qwen2_moe",
     .models = "Qwen 1.5 and 2 MoE",
     .tensors = {.shared_expert = "mlp.shared_expert."},
     .read = read_qwen2_moe},
    {.architecture = "Qwen3MoeForCausalLM",
     .model_type = "qwen3_moe",
     .models = "Qwen 3 MoE",
     .qk_norm = QkNorm::per_head,
     .read = read_qwen3_moe},
    {.architecture = "Glm4MoeForCausalLM",
     .model_type = "glm4_moe",
     .models = "GLM-4.5 and 4.6",
     .mtp = &glm_mtp,
     .norm_epsilon = 1e-5,
     .rope = {.partial = true, .rotated = 0.5},
     .read = read_glm4_moe},
    {.architecture = "Dots1ForCausalLM",
     .model_type = "dots1",
     .models = "dots.llm1",
     .qk_norm = QkNorm::per_head,
     .read = read_dots1},
    {.architecture = "Gemma2ForCausalLM",
     .model_type = "gemma2",
     .models = "Gemma 2",
     .tensors = gemma_tensors,
     .norms_plus_one = true,
     .tied_embedding = true,
     .head_dim = 256,
     .activation_key = "hidden_activation",
     .activation = "gelu_pytorch_tanh",
     .read = read_gemma2},
    {.architecture = "Gemma3ForCausalLM",
     .model_type = "gemma3_text",
     .models = "Gemma 3 (text)",
     .tensors = gemma_tensors,
     .qk_norm = QkNorm::per_head,
     .norms_plus_one = true,
     .tied_embedding = true,
     .rope = {.theta = 1'000'000, .by_layer_type = true},
     .shape = gemma3_shape,
     .head_dim = 256,
     .activation_key = "hidden_activation",
     .activation = "gelu_pytorch_tanh",
     .read = read_gemma3},
    {.architecture = "Gemma3ForConditionalGeneration",
     .model_type = "gemma3",
     .models = "Gemma 3 (the text part)",
     .text_config = "text_config",
     .tensors = gemma_tensors,
     .names = beside_tower,
     .qk_norm = QkNorm::per_head,
     .norms_plus_one = true,
     .tied_embedding = true,
     .rope = {.theta = 1'000'000, .by_layer_type = true},
     .shape = gemma3_shape,
     .head_dim = 256,
     .activation_key = "hidden_activation",
     .activation = "gelu_pytorch_tanh",
     .read = read_gemma3},
    {.architecture = "Phi3ForCausalLM",
     .model_type = "phi3",
     .models = "Phi 3",
     .tensors = {.fused = true},
     .norm_epsilon = 1e-5,
     .rope = {.partial = true, .scaled = false},
     .read = read_phi3},
    {.architecture = "SmolLM3ForCausalLM",
     .model_type = "smollm3",
     .models = "SmolLM 3",
     .tied_embedding = true,
     .rope = {.theta = 2'000'000},
     .read = read_smollm3},
    {.architecture = "GraniteForCausalLM",
     .model_type = "granite",
     .models = "Granite 3",
     .read = read_granite},
    {.architecture = "Olmo2ForCausalLM",
     .model_type = "olmo2",
     .models = "OLMo 2",
     .tensors = {"", "post_attention_layernorm", "", "post_feedforward_layernorm"},
     .qk_norm = QkNorm::full_width,
     .norm_epsilon = 1e-5},
    {.architecture = "Olmo3ForCausalLM",
     .model_type = "olmo3",
     .models = "OLMo 3",
     .tensors = {"", "post_attention_layernorm", "", "post_feedforward_layernorm"},
     .qk_norm = QkNorm::full_width,
     .norm_epsilon = 1e-5,
     .rope = {.theta = olmo3_theta, .by_layer_type = true},
     .read = read_olmo3},
    {.architecture = "OlmoeForCausalLM",
     .model_type = "olmoe",
     .models = "OLMoE",
     .qk_norm = QkNorm::full_width,
     .norm_epsilon = 1e-5,
     .read = read_olmoe},
    {.architecture = "GptOssForCausalLM",
     .model_type = "gpt_oss",
     .models = "gpt-oss",
     .tensors = {.router = "mlp.router", .order = ExpertOrder::in_turn},
     .norm_epsilon = 1e-5,
     .rope = {.theta = 150'000, .yarn_factor = 32, .yarn_trained = 4096},
     .head_dim = 64,
     .read = read_gpt_oss},
};

/// Lists all architectures: "LlamaForCausalLM, ..."
std::string architectures() {
  std::vector<std::string_view> names;
  for (const Family& family : families)
    names.emplace_back(family.architecture);
  return fmt::format("{}", fmt::join(names, ", "));
}

} // namespace

const Family* find_family(text::JsonFields& fields) {
  const json::value* list = fields.find("architectures");
  std::string name;
  if (list && list->is_array() && list->get_array().size() == 1 && list->get_array()[0].is_string())
    name = list->get_array()[0].get_string();
  const std::string type = fields.string("model_type", "");
  for (const Family& family : families)
    if (list ? name == family.architecture : type == family.model_type)
      return &family;
  fields.wrong(ErrorCode::unsupported,
               fmt::format("architecture {} is not known",
                           text::shown(list ? json::serialize(*list) : "of model_type " + type)),
               "use a checkpoint of one of " + architectures());
  return nullptr;
}

const Family& family_of(const std::string& architecture) {
  const auto at = std::find_if(std::begin(families), std::end(families), [&](const Family& family) {
    return architecture == family.architecture;
  });
  assert(at != std::end(families));
  return *at;
}

std::span<const Family> known_families() {
  return families;
}

} // namespace paceline::models
