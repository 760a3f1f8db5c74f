// Options that several families' config.json have, for the functions that read these
// (family_options.hpp).
#pragma once

#include "models/config.hpp"
#include "text/json.hpp"

#include <functional>
#include <initializer_list>
#include <vector>

namespace paceline::models {

/// Reads "sliding_window": `absent` if the file does not mention it, and none (0) if it says null.
int window_of(text::JsonFields& fields, int absent);

/// Returns the index in `types` of what "layer_types" lists for each layer, or -1 for each if the
/// file has no such list.
std::vector<int> layer_types(text::JsonFields& fields, const ModelConfig& config,
                             std::initializer_list<const char*> types);

/// Divides layers into those with the window and those that see all positions: as "layer_types"
/// lists them, or by `sliding`.
void set_windows(text::JsonFields& fields, ModelConfig& config, int window,
                 const std::function<bool(int layer)>& sliding);
/// Gives the layers that have a window a rotation of their own. theta: its base, if it has no
/// object that gives one.
void rotate_windows_apart(text::JsonFields& fields, ModelConfig& config, double theta);

/// Makes all layers those that do not encode positions.
void rotate_nothing(ModelConfig& config);

/// Checks the sizes of a recurrence, whose heads have such keys.
void check_recurrence(text::JsonFields& fields, const gpu::Recurrence& rule,
                      const char* value_heads, const char* key_heads);

/// Reads the width of a feed-forward.
int width_of(text::JsonFields& fields, const char* key, int absent);
/// Reads a mixture in the layers that `mixes` says. count: what the file calls the experts' number.
void read_mixture(text::JsonFields& fields, ModelConfig& config, const char* count, int ffn,
                  const std::function<bool(int layer)>& mixes);
/// Reads a router like that of DeepSeek-V3 (DeepSeek-AI 2024, section 2.1.2), whose scores are
/// sigmoids. normalised: what "norm_topk_prob" is where the file does not say it.
void read_sigmoid_router(text::JsonFields& fields, MixtureConfig& mixture, bool normalised);

} // namespace paceline::models
