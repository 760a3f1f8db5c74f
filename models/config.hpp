// config.json and generation_config.json, checked.
#pragma once

#include "paceline/error.hpp"
#include "paceline/request.hpp"
#include "sampling/warp.hpp"

#include <string>
#include <vector>

namespace paceline::models {

/// What the transformer needs to know; every field was range-checked.
struct ModelConfig {
  std::string architecture; ///< "LlamaForCausalLM"
  int hidden = 0;
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn = 0;
  int vocabulary = 0;
  int context = 0;
  float norm_epsilon = 1e-5f;
  float rope_theta = 10000.0f;
  bool tied_embedding = false;
};
Result<ModelConfig> load_config(const std::string& folder);

/// generation_config.json (or config.json's ids where it is absent).
struct GenerationDefaults {
  sampling::Warping warping;        ///< Greedy unless do_sample says otherwise.
  std::vector<TokenId> end_of_text; ///< eos_token_id, one or several.
};
Result<GenerationDefaults> load_generation_defaults(const std::string& folder);

} // namespace paceline::models
