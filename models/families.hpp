// The families of models that are known: one table entry each.
#pragma once

#include "models/config.hpp"
#include "models/files.hpp"
#include "models/rope.hpp"

#include <span>

namespace paceline::models {

/// What a family has that config.json does not say, or says in its own way. The fields beside
/// `read` are what most families differ in.
struct Family {
  const char* architecture = ""; ///< config.json's "architectures"
  const char* model_type = "";   ///< and its "model_type", where the former is missing.
  const char* models = "";       ///< Whose it is, for people.
  BlockTensors tensors = {};
  QkNorm qk_norm = QkNorm::none;
  bool norms_plus_one = false;
  bool tied_embedding = false; ///< Defaults of what config.json may leave out.
  double norm_epsilon = 1e-6;
  RopeRules rope = {};
  int head_dim = 0; ///< 0: hidden size / heads
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  /// Reads what only this family's config.json holds, after everything else; null: nothing.
  void (*read)(JsonFields&, ModelConfig&) = nullptr;
};

/// Null when the architecture is not known.
const Family* find_family(JsonFields& fields);
std::span<const Family> known_families();

} // namespace paceline::models
