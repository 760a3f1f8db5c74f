// Rotary position embeddings (Su et al. 2021) and their scalings, as config.json names them.
#pragma once

#include "models/config.hpp"
#include "text/json.hpp"

namespace paceline::models {

/// What families differ in.
struct RopeRules {
  double theta = 10'000;      ///< Where config.json does not say.
  bool partial = false;       ///< A part of a head may be rotated.
  bool scaled = true;         ///< Scalings are known: not of Phi 3, whose "yarn" is another one.
  bool by_layer_type = false; ///< "rope_parameters" holds an object for each kind of layer.
};

/// The rotation of layers that see all positions: "rope_scaling" and "rope_theta", or
/// "rope_parameters", where newer files keep both. config: its head_dim and context; a scaling may
/// lengthen the context. A rotation that depends on the current length, or is not known, is refused
/// by name.
RopeConfig read_rope(text::JsonFields& fields, ModelConfig& config, const RopeRules& rules);

/// The rotation of layers with a window, where it is another one (Gemma 3).
RopeConfig read_local_rope(text::JsonFields& fields, ModelConfig& config);

} // namespace paceline::models
