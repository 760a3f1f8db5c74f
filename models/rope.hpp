// Rotary position embeddings (Su et al. 2021) and their scalings, under config.json's names.
#pragma once

#include "models/config.hpp"
#include "text/json.hpp"

namespace paceline::models {

/// Bounds of a rotation's base.
inline constexpr double rope_theta_min = 1.001;
inline constexpr double rope_theta_max = 1e12;

/// The differences between families.
struct RopeRules {
  double theta = 10'000;        ///< Base if config.json does not give one.
  bool partial = false;         ///< A part of a head may be rotated.
  double rotated = 1;           ///< This part of it, if config.json does not give one.
  const char* rotated_key = ""; ///< Gives the number of rotated dimensions in place of a part.
  bool scaled = true; ///< Scalings are known; of Phi 3's, whose "yarn" is another, "longrope".
  /// The factor of a "yarn" over `yarn_trained` positions that is not cut to whole pairs, if
  /// config.json describes no rotation; 0: it is not scaled then.
  double yarn_factor = 0;
  int yarn_trained = 0;
  /// The part of a head that a "proportional" rotation turns, if config.json describes none; 0: the
  /// rotation is of another kind then.
  double proportional = 0;
  bool by_layer_type = false; ///< "rope_parameters" holds an object for each kind of layer.
};

/// Reads the rotation of layers that see all positions: "rope_scaling" and "rope_theta", or
/// "rope_parameters", in which newer files keep both. It uses head_dim and context of `config`; a
/// scaling may lengthen the context, or cut it where its rotation would depend on the length. A
/// rotation that depends on the current length, or is not known, is refused by name.
RopeConfig read_rope(text::JsonFields& fields, ModelConfig& config, const RopeRules& rules);

/// Reads the rotation of layers with a window, if it is a different one (Gemma 3, OLMo 3). theta:
/// its base, if it has no object that gives one.
RopeConfig read_local_rope(text::JsonFields& fields, ModelConfig& config, double theta);

} // namespace paceline::models
