#include "models/config.hpp"

#include <algorithm>

namespace paceline::models {
namespace {

double average_ffn(const ModelConfig& c, int MixtureConfig::*experts) {
  double units = 0;
  for (int layer = 0; layer < c.layers; ++layer) {
    const MixtureConfig* mixture = c.mixture_in(layer);
    units += mixture ? double(mixture->*experts) * mixture->ffn + mixture->shared_ffn
                     : double(c.ffn_in(layer));
  }
  return units / c.layers;
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

int ModelConfig::widest_head() const {
  int widest = 0;
  for (int layer = 0; layer < layers; ++layer)
    widest = std::max(widest, head_dim_in(layer));
  return widest;
}

int ModelConfig::features() const {
  if (drafts_blocks())
    return 0;
  if (fusion)
    return reads_keys() ? fusion->width : hidden;
  int all = int(taps.size()) * hidden;
  for (const int layer : key_taps)
    all += key_values(layer);
  return all;
}

int ModelConfig::last_for_all() const {
  if (taps_end())
    return layers;
  int last = layers - 1;
  while (taps.empty() && last > 0 && !stores(last) && !is_recurrent(last))
    --last;
  return last;
}

int ModelConfig::attention_outputs(int layer) const {
  const int all = (output_gate ? 2 : 1) * heads + (makes_keys(layer) ? 2 * kv_heads_in(layer) : 0);
  return all * head_dim_in(layer);
}

std::size_t ModelConfig::token_bytes(int first, int count, gpu::KvType type) const {
  std::size_t bytes = 0;
  for (int layer = first; layer < first + count; ++layer)
    if (stores(layer))
      bytes += gpu::KvLayout{1, kv_heads_in(layer), head_dim_in(layer), 1, type}.token_bytes();
  return bytes;
}

gpu::KvLayout ModelConfig::pages_of(int layer, int first, int page_tokens, gpu::KvType type) const {
  const int stored = stores(layer) ? layer : mixers[std::size_t(layer)].keys_of;
  return {1,
          kv_heads_in(stored),
          head_dim_in(stored),
          page_tokens,
          type,
          std::size_t(page_tokens) * token_bytes(first, stored - first, type)};
}

int ModelConfig::first_attending() const {
  int layer = 0;
  while (layer + 1 < layers && !attends(layer))
    ++layer;
  return layer;
}

int ModelConfig::recurrent_in(int first, int count) const {
  int recurrent = 0;
  for (int layer = first; layer < first + count; ++layer)
    recurrent += is_recurrent(layer);
  return recurrent;
}

int ModelConfig::mixer_outputs(int layer) const {
  switch (mixers[std::size_t(layer)].mixer) {
  case Mixer::attention: return attention_outputs(layer);
  case Mixer::recurrence: return recurrence->outputs();
  case Mixer::short_convolution: return short_convolution().row();
  case Mixer::none: break;
  }
  return 0;
}

int ModelConfig::mixer_values(int layer) const {
  switch (mixers[std::size_t(layer)].mixer) {
  case Mixer::attention: return heads * head_dim_in(layer);
  case Mixer::recurrence: return recurrence->rule.values();
  case Mixer::short_convolution: return hidden;
  case Mixer::none: break;
  }
  return 0;
}

gpu::ShortConvolution ModelConfig::short_convolution() const {
  gpu::ShortConvolution out;
  out.channels = hidden;
  out.taps = convolution->taps;
  return out;
}

/// All recurrent layers of a model are of one kind.
gpu::StateLayout ModelConfig::states_of(int first, int count) const {
  if (recurrence)
    return {recurrence->rule, recurrent_in(first, count), tentative};
  if (convolution)
    return {short_convolution(), recurrent_in(first, count), tentative};
  return {};
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
