#include "models/families.hpp"

#include "models/family_options.hpp"
#include "text/json.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cassert>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <string_view>
#include <utility>

namespace paceline::models {
namespace json = boost::json;
namespace {

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

const std::vector<ModelNames> gemma4_beside_towers{
    {"model.language_model.",
     "lm_head",
     {"model.vision_tower.", "model.embed_vision.", "model.audio_tower.", "model.embed_audio."}}};

constexpr OwnKey gpt_keys[] = {
    {"hidden_size", "n_embd"},         {"num_hidden_layers", "n_layer"},
    {"num_attention_heads", "n_head"}, {"max_position_embeddings", "n_positions"},
    {"intermediate_size", "n_inner"},  {"rms_norm_eps", "layer_norm_epsilon"},
};
constexpr OwnKey neox_keys[] = {{"rms_norm_eps", "layer_norm_eps"},
                                {"rope_theta", "rotary_emb_base"},
                                {"partial_rotary_factor", "rotary_pct"}};
constexpr OwnKey gemma4_keys[] = {{"num_experts_per_tok", "top_k_experts"}};
constexpr OwnKey opt_keys[] = {{"intermediate_size", "ffn_dim"}};
/// Names of the GPTs, which folders also have without a prefix.
std::vector<ModelNames> gpt_names(const char* positions) {
  std::vector<ModelNames> names;
  for (const char* prefix : {"transformer.", ""})
    names.push_back({.prefix = prefix,
                     .embedding = "wte",
                     .positions = positions,
                     .blocks = "h.",
                     .final_norm = "ln_f"});
  return names;
}

ModelNames neox_names(const char* head) {
  return {.prefix = "gpt_neox.",
          .head = head,
          .embedding = "embed_in",
          .final_norm = "final_layer_norm"};
}

ModelNames opt_names(const char* prefix) {
  return {.prefix = prefix, .positions = "embed_positions", .final_norm = "final_layer_norm"};
}

const Family gptj{.architecture = "GPTJForCausalLM",
                  .model_type = "gptj",
                  .models = "GPT-J",
                  .tensors = {.attention_norm = "ln_1",
                              .ffn_norm = "",
                              .query = "attn.q_proj",
                              .key = "attn.k_proj",
                              .value = "attn.v_proj",
                              .heads = {.neighbours = true},
                              .attention_out = "attn.out_proj",
                              .gate = "",
                              .up = "mlp.fc_in",
                              .down = "mlp.fc_out"},
                  .names = gpt_names(""),
                  .norm_epsilon = 1e-5,
                  .rope = {.rotated_key = "rotary_dim"},
                  .keys = gpt_keys,
                  .shape = {.ffn_times = 4},
                  .activation_key = "activation_function",
                  .activation = "gelu_new",
                  .read = read_gptj};

/// Returns CodeGen's family, which has one tensor in four parts for queries, keys and values.
Family codegen() {
  Family family = like(gptj, "CodeGenForCausalLM", "codegen", "CodeGen", read_codegen);
  family.tensors.query_key_value = "attn.qkv_proj";
  family.tensors.heads = {.parts = 4, .values_first = true, .neighbours = true};
  return family;
}

constexpr ShapeDefaults gemma3_shape{
    .heads = 8, .kv_heads = 4, .vocabulary = 262'208, .context = 131'072};

constexpr BlockTensors olmo_tensors{"", "post_attention_layernorm", "",
                                    "post_feedforward_layernorm"};
constexpr BlockTensors gemma_tensors{"input_layernorm", "post_attention_layernorm",
                                     "pre_feedforward_layernorm", "post_feedforward_layernorm"};

const Family gemma3{.architecture = "Gemma3ForCausalLM",
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
                    .read = read_gemma3};

const Family gemma4{.architecture = "Gemma4ForCausalLM",
                    .model_type = "gemma4_text",
                    .models = "Gemma 4 (text)",
                    .tensors = {.attention_norm = "input_layernorm",
                                .attention_post_norm = "post_attention_layernorm",
                                .ffn_norm = "pre_feedforward_layernorm",
                                .ffn_post_norm = "post_feedforward_layernorm",
                                .router = "router.proj",
                                .experts = "experts.",
                                .shared_expert = "mlp."},
                    .qk_norm = QkNorm::per_head,
                    .tied_embedding = true,
                    .rope = {.theta = 1'000'000, .proportional = 0.25, .by_layer_type = true},
                    .keys = gemma4_keys,
                    .shape = gemma3_shape,
                    .head_dim = 256,
                    .activation_key = "hidden_activation",
                    .activation = "gelu_pytorch_tanh",
                    .read = read_gemma4};

/// The families without recurrent layers.
const Family common_families[] = {
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
    gemma3,
    also_sees(gemma3, "Gemma3ForConditionalGeneration", "gemma3", "Gemma 3 (the text part)",
              beside_tower),
    gemma4,
    also_sees(gemma4, "Gemma4ForConditionalGeneration", "gemma4", "Gemma 4 (the text part)",
              gemma4_beside_towers),
    {.architecture = "Phi3ForCausalLM",
     .model_type = "phi3",
     .models = "Phi 3",
     .tensors = {.query_key_value = "self_attn.qkv_proj", .gate_up = "mlp.gate_up_proj"},
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
     .tensors = olmo_tensors,
     .qk_norm = QkNorm::full_width,
     .norm_epsilon = 1e-5},
    {.architecture = "Olmo3ForCausalLM",
     .model_type = "olmo3",
     .models = "OLMo 3",
     .tensors = olmo_tensors,
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
    {.architecture = "OPTForCausalLM",
     .model_type = "opt",
     .models = "OPT",
     .tensors = {.attention_norm = "self_attn_layer_norm",
                 .ffn_norm = "final_layer_norm",
                 .attention_out = "self_attn.out_proj",
                 .gate = "",
                 .up = "fc1",
                 .down = "fc2"},
     .names = {opt_names("model.decoder."), opt_names("decoder.")},
     .tied_embedding = true,
     .norm_epsilon = 1e-5,
     .keys = opt_keys,
     .activation_key = "activation_function",
     .activation = "relu",
     .read = read_opt},
    {.architecture = "GPT2LMHeadModel",
     .model_type = "gpt2",
     .models = "GPT-2",
     .tensors = {.attention_norm = "ln_1",
                 .ffn_norm = "ln_2",
                 .query_key_value = "attn.c_attn",
                 .attention_out = "attn.c_proj",
                 .gate = "",
                 .up = "mlp.c_fc",
                 .down = "mlp.c_proj",
                 .transposed = true},
     .names = gpt_names("wpe"),
     .tied_embedding = true,
     .norm_epsilon = 1e-5,
     .keys = gpt_keys,
     .shape = {.ffn_times = 4},
     .activation_key = "activation_function",
     .activation = "gelu_new",
     .read = read_gpt2},
    {.architecture = "GPTNeoXForCausalLM",
     .model_type = "gpt_neox",
     .models = "GPT-NeoX, Pythia",
     .tensors = {.query_key_value = "attention.query_key_value",
                 .heads = {.parts = HeadOrder::each_head},
                 .attention_out = "attention.dense",
                 .gate = "",
                 .up = "mlp.dense_h_to_4h",
                 .down = "mlp.dense_4h_to_h"},
     .names = {neox_names("embed_out"), neox_names("lm_head")},
     .norm_epsilon = 1e-5,
     .rope = {.partial = true, .rotated = 0.25},
     .keys = neox_keys,
     .activation = "gelu",
     .read = read_gpt_neox},
    gptj,
    codegen(),
};

std::vector<Family> all_families() {
  std::vector<Family> all(std::begin(common_families), std::end(common_families));
  std::ranges::move(hybrid_families(), std::back_inserter(all));
  return all;
}

/// Lists all architectures: "LlamaForCausalLM, ..."
std::string architectures() {
  std::vector<std::string_view> names;
  for (const Family& family : known_families())
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
  for (const Family& family : known_families())
    if (list ? name == family.architecture : type == family.model_type)
      return &family;
  fields.wrong(ErrorCode::unsupported,
               fmt::format("architecture {} is not known",
                           text::shown(list ? json::serialize(*list) : "of model_type " + type)),
               "use a checkpoint of one of " + architectures());
  return nullptr;
}

const Family& family_of(const std::string& architecture) {
  const auto all = known_families();
  const auto at = std::ranges::find(all, architecture, &Family::architecture);
  assert(at != all.end());
  return *at;
}

Family like(Family other, const char* architecture, const char* model_type, const char* models,
            decltype(Family::read) read) {
  other.architecture = architecture;
  other.model_type = model_type;
  other.models = models;
  other.read = read;
  return other;
}

Family also_sees(Family text, const char* architecture, const char* model_type, const char* models,
                 std::vector<ModelNames> names) {
  text = like(std::move(text), architecture, model_type, models, text.read);
  text.text_config = "text_config";
  text.names = std::move(names);
  return text;
}

std::span<const Family> known_families() {
  static const std::vector<Family> all = all_families();
  return all;
}

} // namespace paceline::models
