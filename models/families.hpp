// The families of models that are known: one table entry each.
#pragma once

#include "models/config.hpp"
#include "text/json.hpp"

namespace paceline::models {

/// What a block's tensors are called, below "model.layers.N."; an empty name: there is none.
struct BlockTensors {
  const char* attention_norm = "input_layernorm";
  const char* attention_post_norm = ""; ///< Of what attention gives, before the residual.
  const char* ffn_norm = "post_attention_layernorm";
  const char* ffn_post_norm = "";
  bool fused = false; ///< qkv_proj and gate_up_proj, in place of three and two tensors.
};

/// What a family has that config.json does not say, or says in its own way. The fields beside
/// `read` are what most families differ in.
struct Family {
  const char* architecture = ""; ///< config.json's "architectures"
  const char* model_type = "";   ///< and its "model_type", where the former is missing.
  BlockTensors tensors = {};
  QkNorm qk_norm = QkNorm::none;
  bool norms_plus_one = false;
  bool tied_embedding = false; ///< Defaults of what config.json may leave out.
  double norm_epsilon = 1e-6;
  double rope_theta = 10'000;
  int head_dim = 0;            ///< 0: hidden size / heads
  bool partial_rotary = false; ///< Whether partial_rotary_factor is heeded.
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  /// Reads what only this family's config.json holds, after everything else; null: nothing.
  void (*read)(text::JsonFields&, ModelConfig&) = nullptr;
};

/// Null when the architecture is not known.
const Family* find_family(text::JsonFields& fields);
/// Of an architecture that is known.
const BlockTensors& block_tensors(const std::string& architecture);
/// "LlamaForCausalLM, ..."
std::string known_architectures();

} // namespace paceline::models
