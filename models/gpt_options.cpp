// What the configurations of GPT-2 and of the families that grew from it say in their own way:
// layer norms, feed-forwards without gates, and biases.
#include "models/common_options.hpp"
#include "models/families.hpp"
#include "models/family_options.hpp"

#include <fmt/format.h>

namespace paceline::models {
namespace {

/// Sets what these families have in common.
void set_gpt(ModelConfig& c) {
  c.layer_norms = true;
  c.gated = false;
  c.ffn_bias = true;
}

/// Gives every position a row of a table in place of a rotation. before: rows before position 0.
void learn_positions(ModelConfig& c, int before) {
  c.positions = PositionTable{c.context + before, before};
  rotate_nothing(c);
}

void refuse(text::JsonFields& fields, const ModelConfig& c, const char* what, const char* hint) {
  fields.wrong(ErrorCode::unsupported, fmt::format("{} is not known for {}", what, c.architecture),
               hint);
}

} // namespace

/// Reads the options of GPT-2 (Radford et al. 2019).
void read_gpt2(text::JsonFields& fields, ModelConfig& c) {
  set_gpt(c);
  learn_positions(c, 0);
  c.qkv_bias = c.attention_out_bias = true;
  if (!fields.boolean("scale_attn_weights", true))
    c.attention_scale = 1;
}

/// Reads the options of GPT-NeoX (Black et al. 2022).
void read_gpt_neox(text::JsonFields& fields, ModelConfig& c) {
  set_gpt(c);
  c.parallel = fields.boolean("use_parallel_residual", true);
  c.qkv_bias = c.attention_out_bias = fields.boolean("attention_bias", true);
}

/// Reads the options of OPT (Zhang et al. 2022). Its smallest models but one have norms behind the
/// layers' parts, or embeddings that are narrower than a row.
void read_opt(text::JsonFields& fields, ModelConfig& c) {
  set_gpt(c);
  learn_positions(c, 2);
  c.qkv_bias = c.attention_out_bias = c.ffn_bias = fields.boolean("enable_bias", true);
  constexpr const char* hint = "use a checkpoint of another size; all but opt-350m are known";
  if (fields.integer("word_embed_proj_dim", 1, 1 << 30, c.hidden) != c.hidden)
    refuse(fields, c, "word_embed_proj_dim other than hidden_size", hint);
  if (!fields.boolean("do_layer_norm_before", true))
    refuse(fields, c, "do_layer_norm_before = false", hint);
  if (fields.boolean("_remove_final_layer_norm", false))
    refuse(fields, c, "_remove_final_layer_norm", "use a checkpoint with that norm");
  if (!fields.boolean("layer_norm_elementwise_affine", true))
    refuse(fields, c, "layer_norm_elementwise_affine = false", "use a checkpoint with its weights");
}

/// Reads the options of GPT-J (Wang and Komatsuzaki 2021). Its head's bias would stay its own.
void read_gptj(text::JsonFields& fields, ModelConfig& c) {
  set_gpt(c);
  c.parallel = true;
  c.head_bias = true;
  if (c.tied_embedding)
    refuse(fields, c, "tie_word_embeddings", "use a checkpoint with a head of its own");
}

/// Reads the options of CodeGen (Nijkamp et al. 2022), which is GPT-J but for its fused tensors.
void read_codegen(text::JsonFields& fields, ModelConfig& c) {
  read_gptj(fields, c);
  const int parts = family_of(c.architecture).tensors.heads.parts;
  if (c.heads % parts != 0)
    fields.wrong(ErrorCode::corrupt,
                 fmt::format("{} {} is not a multiple of {}, into which its tensors are divided",
                             fields.spelled("num_attention_heads"), c.heads, parts),
                 "the checkpoint contradicts itself");
}

} // namespace paceline::models
