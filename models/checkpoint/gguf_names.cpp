#include "models/checkpoint/gguf_names.hpp"

#include <fmt/format.h>

namespace paceline::models {

const char* name_in_gguf(TensorRole role) {
  switch (role) {
  case TensorRole::embedding: return "token_embd";
  case TensorRole::positions: return "position_embd";
  case TensorRole::head: return "output";
  case TensorRole::final_norm: return "output_norm";
  case TensorRole::attention_norm: return "attn_norm";
  case TensorRole::query: return "attn_q";
  case TensorRole::key: return "attn_k";
  case TensorRole::value: return "attn_v";
  case TensorRole::query_key_value: return "attn_qkv";
  case TensorRole::query_norm: return "attn_q_norm";
  case TensorRole::key_norm: return "attn_k_norm";
  case TensorRole::sinks: return "attn_sinks";
  case TensorRole::attention_out: return "attn_output";
  case TensorRole::attention_post_norm: return "post_attention_norm";
  case TensorRole::router: return "ffn_gate_inp";
  case TensorRole::choice_bias: return "exp_probs_b";
  case TensorRole::shared_gate: return "ffn_gate_inp_shexp";
  case TensorRole::gate: return "ffn_gate";
  case TensorRole::up:
  case TensorRole::gate_up: return "ffn_up"; // the name of a fused one, too
  case TensorRole::down: return "ffn_down";
  case TensorRole::ffn_post_norm: return "post_ffw_norm";
  case TensorRole::delta_in: return "attn_qkv";
  case TensorRole::delta_gate: return "attn_gate";
  case TensorRole::delta_strength: return "ssm_beta";
  case TensorRole::delta_rate: return "ssm_alpha";
  case TensorRole::delta_joined: break; // Only old files have such.
  case TensorRole::delta_rates: return "ssm_ba";
  case TensorRole::mixer_in: return "ssm_in";
  case TensorRole::mixer_out: return "ssm_out";
  case TensorRole::kernel: return "ssm_conv1d";
  case TensorRole::speed: return "ssm_a";
  case TensorRole::offset: return "ssm_dt";
  case TensorRole::skip: return "ssm_d";
  case TensorRole::recurrence_norm: return "ssm_norm";
  case TensorRole::router_norm: return "ffn_gate_inp";
  case TensorRole::expert_scales: return "ffn_down_exps";
  case TensorRole::expert_norm: return "pre_ffw_norm_2";
  case TensorRole::expert_post_norm: return "post_ffw_norm_2";
  case TensorRole::shared_post_norm: return "post_ffw_norm_1";
  case TensorRole::layer_scale: return "layer_output_scale";
  case TensorRole::input_table: return "per_layer_token_embd";
  case TensorRole::input_projection: return "per_layer_model_proj";
  case TensorRole::input_norm: return "per_layer_proj_norm";
  case TensorRole::input_gate: return "inp_gate";
  case TensorRole::input_out: return "proj";
  case TensorRole::input_post_norm: return "post_norm";
  case TensorRole::fusion: return "nextn.eh_proj";
  case TensorRole::fusion_norm: return "nextn.hnorm";
  case TensorRole::token_norm: return "nextn.enorm";
  case TensorRole::fusion_out: // Only folders have such, as the next.
  case TensorRole::clusters:
  case TensorRole::tap_norm:
  case TensorRole::ffn_norm: break; // GgufArchitecture::ffn_norm
  }
  return "";
}

const char* name_in_gguf_convolution(TensorRole role) {
  switch (role) {
  case TensorRole::mixer_in: return "shortconv.in_proj";
  case TensorRole::mixer_out: return "shortconv.out_proj";
  case TensorRole::kernel: return "shortconv.conv";
  case TensorRole::final_norm: return "token_embd_norm";
  default: return "";
  }
}

const char* ending_in_gguf(TensorRole role) {
  switch (role) {
  case TensorRole::speed:
  case TensorRole::skip: return "";
  case TensorRole::offset:
  case TensorRole::choice_bias: return ".bias";
  case TensorRole::router_norm:
  case TensorRole::expert_scales: return ".scale";
  default: return ".weight";
  }
}

bool is_outside_blocks(TensorRole role) {
  switch (role) {
  case TensorRole::embedding:
  case TensorRole::positions:
  case TensorRole::head:
  case TensorRole::final_norm:
  case TensorRole::input_table:
  case TensorRole::input_projection:
  case TensorRole::input_norm: return true;
  default: return false;
  }
}

std::string GgufNames::layer(TensorKey key) const {
  const char* const convolution = convolves ? name_in_gguf_convolution(key.role) : "";
  const char* const own = key.role == TensorRole::ffn_norm ? ffn_norm
                          : *convolution != '\0'           ? convolution
                                                           : name_in_gguf(key.role);
  if (is_outside_blocks(key.role))
    return own;
  return fmt::format("blk.{}.{}{}", key.block, own,
                     key.expert == -1                      ? ""
                     : key.expert == models::shared_expert ? shared_expert
                                                           : "_exps");
}

std::string GgufNames::tensor(TensorKey key) const {
  return layer(key).append(ending_in_gguf(key.role));
}

} // namespace paceline::models
