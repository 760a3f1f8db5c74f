// How wide the weights on a device are.
#pragma once

#include "paceline/weight_format.hpp"

#include <map>
#include <mutex>

namespace paceline::gpu::sim {

/// Counts the weights on a device, which grow as models are loaded. Any thread.
class WeightWidth {
public:
  void add(WeightFormat format, double weights, double bytes);
  /// Returns the bits of a weight in the format that most weights have, scales of blocks included:
  /// in models as small as those that are simulated, embeddings and heads are a larger share than
  /// in the models that a profile stands for. 16: there are no weights.
  double bits() const;

private:
  struct Size {
    double weights = 0;
    double bytes = 0;
  };
  mutable std::mutex mutex_;
  std::map<WeightFormat, Size> sizes_;
};

} // namespace paceline::gpu::sim
