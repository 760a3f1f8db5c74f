// Consecutive layers of a model.
#pragma once

namespace paceline::models {

/// The layers of a stage. The first stage also has the embedding, and the last one the final norm
/// and the head.
struct LayerRange {
  int first = 0;
  int count = 0; ///< 0: only the final norm and the head, behind the last layer.
  /// The final norm and the head are a stage of their own, behind these.
  bool without_head = false;

  int end() const { return first + count; }
  bool has_head(int layers) const { return end() == layers && !without_head; }
  bool operator==(const LayerRange&) const = default;
};

} // namespace paceline::models
