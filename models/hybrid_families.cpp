// The families with recurrent layers, and Granite's mixtures, to which its hybrid adds.
#include "models/families.hpp"
#include "models/family_options.hpp"

namespace paceline::models {
namespace {

constexpr MtpTensors qwen_mtp{.prefix = "mtp.",
                              .blocks = "layers.",
                              .fusion = "fc",
                              .token_norm = "pre_fc_norm_embedding",
                              .fusion_norm = "pre_fc_norm_hidden",
                              .final_norm = "norm",
                              .embedding = "embed_tokens",
                              .head = "lm_head",
                              .goes_on_normed = true};

const std::vector<ModelNames> qwen_beside_tower{
    {"model.language_model.", "lm_head", {"mtp.", "model.visual."}}};

constexpr OwnKey lfm2_keys[] = {{"rms_norm_eps", "norm_eps"},
                                {"intermediate_size", "block_ff_dim"},
                                {"tie_word_embeddings", "tie_embedding"}};
constexpr OwnKey nemotron_keys[] = {
    {"layer_types", "layers_block_type"},
    {"rms_norm_eps", "layer_norm_epsilon"},
    {"head_dim", "attention_head_dim"},
    {"mamba_n_heads", "mamba_num_heads"},
    {"mamba_d_head", "mamba_head_dim"},
    {"mamba_n_groups", "n_groups"},
    {"mamba_d_state", "ssm_state_size"},
    {"mamba_d_conv", "conv_kernel"},
    {"mamba_conv_bias", "use_conv_bias"},
    {"mamba_proj_bias", "use_bias"},
    {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"},
};

const Family lfm2{.architecture = "Lfm2ForCausalLM",
                  .model_type = "lfm2",
                  .models = "LFM 2",
                  .tensors = {.attention_norm = "operator_norm",
                              .ffn_norm = "ffn_norm",
                              .router = "feed_forward.gate",
                              .experts = "feed_forward.experts.",
                              .expert_gate = "w1",
                              .expert_up = "w3",
                              .expert_down = "w2",
                              .choice_bias = "feed_forward.expert_bias",
                              .query_norm = "self_attn.q_layernorm",
                              .key_norm = "self_attn.k_layernorm",
                              .recurrent = "conv.",
                              .kernel = "conv",
                              .attention_out = "self_attn.out_proj",
                              .gate = "feed_forward.w1",
                              .up = "feed_forward.w3",
                              .down = "feed_forward.w2"},
                  .names = {{.final_norm = "embedding_norm"}},
                  .qk_norm = QkNorm::per_head,
                  .tied_embedding = true,
                  .norm_epsilon = 1e-5,
                  .rope = {.theta = 1'000'000},
                  .keys = lfm2_keys,
                  .read = read_lfm2};

const Family granite_moe{.architecture = "GraniteMoeForCausalLM",
                         .model_type = "granitemoe",
                         .models = "Granite 3 MoE",
                         .tensors = {.router = "block_sparse_moe.router.layer",
                                     .experts = "block_sparse_moe.",
                                     .expert_down = "output_linear",
                                     .expert_gate_up = "input_linear",
                                     .stacked_gate_up = "input_linear.weight",
                                     .stacked_down = "output_linear.weight",
                                     .shared_expert = "shared_mlp.",
                                     .recurrent = "mamba.",
                                     .gate_up = "shared_mlp.input_linear",
                                     .down = "shared_mlp.output_linear"},
                         .read = read_granite_moe};

const Family qwen3_5{.architecture = "Qwen3_5ForCausalLM",
                     .model_type = "qwen3_5_text",
                     .models = "Qwen 3.5 and 3.6 (text)",
                     .names = {{.others = {"mtp.", "model.visual."}}},
                     .mtp = &qwen_mtp,
                     .qk_norm = QkNorm::per_head,
                     .norms_plus_one = true,
                     .rope = {.partial = true, .rotated = 0.25},
                     .head_dim = 256,
                     .read = read_qwen3_5};

/// Returns the family of Qwen 3.5's mixtures.
Family qwen3_5_moe() {
  Family family = like(qwen3_5, "Qwen3_5MoeForCausalLM", "qwen3_5_moe_text",
                       "Qwen 3.5 and 3.6 MoE (text)", read_qwen3_5_moe);
  family.tensors.shared_expert = "mlp.shared_expert.";
  return family;
}

/// Returns the family of Qwen 3 Next, whose recurrent layers have joined tensors.
Family qwen3_next() {
  Family family =
      like(qwen3_5_moe(), "Qwen3NextForCausalLM", "qwen3_next", "Qwen 3 Next", read_qwen3_next);
  family.tensors.joined_heads = true;
  family.names = {{.others = {"mtp."}}};
  return family;
}

ModelNames nemotron_names(const char* prefix) {
  return {.prefix = prefix, .others = {"mtp."}, .embedding = "embeddings", .final_norm = "norm_f"};
}

/// Each layer is a mixer or a feed-forward, under one name, with one norm.
const Family nemotron_h{.architecture = "NemotronHForCausalLM",
                        .model_type = "nemotron_h",
                        .models = "Nemotron-H, Nemotron Nano 2, Nemotron 3 Nano",
                        .tensors = {.attention_norm = "norm",
                                    .ffn_norm = "norm",
                                    .router = "mixer.gate",
                                    .experts = "mixer.experts.",
                                    .choice_bias = "mixer.gate.e_score_correction_bias",
                                    .shared_expert = "mixer.shared_experts.",
                                    .query = "mixer.q_proj",
                                    .key = "mixer.k_proj",
                                    .value = "mixer.v_proj",
                                    .recurrent = "mixer.",
                                    .attention_out = "mixer.o_proj",
                                    .gate = "",
                                    .up = "mixer.up_proj",
                                    .down = "mixer.down_proj"},
                        .names = {nemotron_names("backbone."), nemotron_names("model.")},
                        .norm_epsilon = 1e-5,
                        .layer_list = "layers_block_type",
                        .keys = nemotron_keys,
                        .head_dim = 128,
                        .activation_key = "mlp_hidden_act",
                        .activation = "relu2",
                        .read = read_nemotron_h};

} // namespace

std::vector<Family> hybrid_families() {
  return {
      qwen3_5,
      also_sees(qwen3_5, "Qwen3_5ForConditionalGeneration", "qwen3_5",
                "Qwen 3.5 and 3.6 (the text part)", qwen_beside_tower),
      qwen3_5_moe(),
      also_sees(qwen3_5_moe(), "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe",
                "Qwen 3.5 and 3.6 MoE (the text part)", qwen_beside_tower),
      qwen3_next(),
      granite_moe,
      like(granite_moe, "GraniteMoeSharedForCausalLM", "granitemoeshared",
           "Granite 3 MoE with a shared expert", read_granite_moe_shared),
      like(granite_moe, "GraniteMoeHybridForCausalLM", "granitemoehybrid", "Granite 4",
           read_granite_hybrid),
      lfm2,
      like(lfm2, "Lfm2MoeForCausalLM", "lfm2_moe", "LFM 2 MoE", read_lfm2_moe),
      nemotron_h,
  };
}

} // namespace paceline::models
