#include "models/config.hpp"

#include "sampling/limits.hpp"

#include <algorithm>

namespace paceline::models {
namespace {

double average_ffn(const ModelConfig& c, int MixtureConfig::*experts) {
  const double share = double(c.mixtures()) / c.layers;
  const MixtureConfig mixture = c.mixture.value_or(MixtureConfig());
  const double units = double(mixture.*experts) * mixture.ffn + mixture.shared_ffn;
  return (1 - share) * c.ffn + share * units;
}

} // namespace

int ModelConfig::window() const {
  int widest = 0;
  for (const LayerConfig& layer : mixers) {
    if (layer.mixer != Mixer::attention)
      continue;
    if (layer.window == 0)
      return 0;
    widest = std::max(widest, layer.window);
  }
  return widest;
}

int ModelConfig::recurrent_in(int first, int count) const {
  return int(std::count_if(mixers.begin() + first, mixers.begin() + first + count,
                           [](const LayerConfig& l) { return l.mixer != Mixer::attention; }));
}

/// A window may be taken back, and so may its pass.
gpu::StateLayout ModelConfig::states_of(int first, int count) const {
  return delta ? gpu::StateLayout(delta->rule(), recurrent_in(first, count),
                                  sampling::limits::window_max)
               : gpu::StateLayout();
}

int ModelConfig::mixtures() const {
  return mixture ? int(std::ranges::count(mixture->layers, true)) : 0;
}

double ModelConfig::active_ffn() const {
  return average_ffn(*this, &MixtureConfig::top_k);
}

double ModelConfig::stored_ffn() const {
  return average_ffn(*this, &MixtureConfig::experts);
}

} // namespace paceline::models
