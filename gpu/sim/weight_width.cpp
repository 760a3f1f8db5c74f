#include "gpu/sim/weight_width.hpp"

#include <algorithm>

namespace paceline::gpu::sim {

void WeightWidth::add(WeightFormat format, double weights, double bytes) {
  const std::lock_guard lock(mutex_);
  Size& size = sizes_[format];
  size.weights += weights;
  size.bytes += bytes;
}

double WeightWidth::bits() const {
  const std::lock_guard lock(mutex_);
  const auto most = std::ranges::max_element(
      sizes_, {}, [](const auto& format) { return format.second.weights; });
  return most == sizes_.end() ? 16 : 8 * most->second.bytes / most->second.weights;
}

} // namespace paceline::gpu::sim
