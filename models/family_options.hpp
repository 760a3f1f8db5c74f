// What each family's config.json says in its own way, read into a configuration (Family::read). The
// fields that all have in common were read before.
#pragma once

#include "models/config.hpp"
#include "text/json.hpp"

namespace paceline::models {

inline constexpr double olmo3_theta = 500'000; ///< Base of OLMo 3's rotations.
inline constexpr int mamba_expand_max = 64;    ///< Values of a recurrent layer over hidden size.

void read_mistral(text::JsonFields& fields, ModelConfig& config);
void read_qwen(text::JsonFields& fields, ModelConfig& config);
void read_qwen2(text::JsonFields& fields, ModelConfig& config);
void read_mixtral(text::JsonFields& fields, ModelConfig& config);
void read_qwen3_moe(text::JsonFields& fields, ModelConfig& config);
void read_qwen2_moe(text::JsonFields& fields, ModelConfig& config);
void read_glm4_moe(text::JsonFields& fields, ModelConfig& config);
void read_dots1(text::JsonFields& fields, ModelConfig& config);
void read_olmoe(text::JsonFields& fields, ModelConfig& config);
void read_gpt_oss(text::JsonFields& fields, ModelConfig& config);
void read_qwen3_5(text::JsonFields& fields, ModelConfig& config);
void read_qwen3_5_moe(text::JsonFields& fields, ModelConfig& config);
void read_granite(text::JsonFields& fields, ModelConfig& config);
void read_granite_moe(text::JsonFields& fields, ModelConfig& config);
void read_granite_moe_shared(text::JsonFields& fields, ModelConfig& config);
void read_granite_hybrid(text::JsonFields& fields, ModelConfig& config);
void read_nemotron_h(text::JsonFields& fields, ModelConfig& config);
void read_lfm2(text::JsonFields& fields, ModelConfig& config);
void read_lfm2_moe(text::JsonFields& fields, ModelConfig& config);
void read_qwen3_next(text::JsonFields& fields, ModelConfig& config);
void read_phi3(text::JsonFields& fields, ModelConfig& config);
void read_smollm3(text::JsonFields& fields, ModelConfig& config);
void read_gemma2(text::JsonFields& fields, ModelConfig& config);
void read_olmo3(text::JsonFields& fields, ModelConfig& config);
void read_gemma3(text::JsonFields& fields, ModelConfig& config);
void read_gemma4(text::JsonFields& fields, ModelConfig& config);
void read_gpt2(text::JsonFields& fields, ModelConfig& config);
void read_gpt_neox(text::JsonFields& fields, ModelConfig& config);
void read_opt(text::JsonFields& fields, ModelConfig& config);
void read_gptj(text::JsonFields& fields, ModelConfig& config);
void read_codegen(text::JsonFields& fields, ModelConfig& config);

} // namespace paceline::models
