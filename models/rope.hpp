// Rotary position embeddings (Su et al. 2021) and their scalings, as config.json names them.
#pragma once

#include "models/config.hpp"
#include "text/json.hpp"

namespace paceline::models {

/// The rotation of layers that see all positions: "rope_scaling" and "rope_theta", or
/// "rope_parameters", where newer files keep both (per kind of layer where there are several).
/// config: its head_dim and context; a scaling may lengthen the context. A rotation that depends on
/// the current length, or is not known, is refused by name. partial: a part of a head may be
/// rotated.
RopeConfig read_rope(text::JsonFields& fields, ModelConfig& config, double theta, bool partial);

/// The rotation of layers with a window, where it is another one (Gemma 3).
RopeConfig read_local_rope(text::JsonFields& fields, ModelConfig& config);

} // namespace paceline::models
