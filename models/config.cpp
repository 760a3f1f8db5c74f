#include "models/config.hpp"

#include <algorithm>

namespace paceline::models {

int ModelConfig::window() const {
  int widest = 0;
  for (const LayerConfig& layer : attention) {
    if (layer.window == 0)
      return 0;
    widest = std::max(widest, layer.window);
  }
  return widest;
}

} // namespace paceline::models
