// A head on another model, as its files hold it.
#pragma once

#include "models/checkpoint/tensor_source.hpp"
#include "models/config.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::models {

/// A head that was opened for a target, and not loaded yet.
struct HeadSource {
  std::string location;
  const char* layout = ""; ///< "original", "speculators", "mtp", "gemma4-assistant"
  ModelConfig model;       ///< Configuration of its layers, with `fusion` set.
  /// What it reads of the target (ModelConfig::taps).
  std::vector<int> taps;
  std::vector<int> key_taps; ///< ModelConfig::key_taps
  std::unique_ptr<TensorSource> tensors;
  /// The target's ids by the head's ids; empty: they are the same.
  std::vector<TokenId> target_ids;
};

} // namespace paceline::models
