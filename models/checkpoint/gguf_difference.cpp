#include "models/checkpoint/gguf_difference.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline::models {
namespace {

/// Files have factors as f32, and computing with them rounds once more. What stands still in a
/// folder turns by less than this in a file.
bool nearly(float a, float b) {
  constexpr float still = 1e-25f;
  return std::abs(a - b) <= std::max(still, 2e-6f * std::max(std::abs(a), std::abs(b)));
}

bool same_rotation(const RopeConfig& a, const RopeConfig& b) {
  return nearly(a.factor, b.factor) && std::ranges::equal(a.frequencies, b.frequencies, nearly);
}

bool same_mixer(const LayerConfig& a, const LayerConfig& b) {
  const bool rotates = a.mixer == Mixer::attention;
  return a.window == b.window && a.mixer == b.mixer && a.feeds == b.feeds &&
         (!rotates || a.rope == b.rope);
}

bool same_router(const gpu::RouterOptions& a, const gpu::RouterOptions& b) {
  return a.normalised == b.normalised && a.scores == b.scores && nearly(a.scale, b.scale) &&
         a.groups == b.groups && a.groups_used == b.groups_used;
}

bool same_mixture(const MixtureConfig& a, const MixtureConfig& b) {
  return a.experts == b.experts && a.top_k == b.top_k && a.ffn == b.ffn &&
         same_router(a.router, b.router) && a.choice_bias == b.choice_bias &&
         a.biases == b.biases && a.shared_ffn == b.shared_ffn && a.shared_gate == b.shared_gate &&
         a.apart == b.apart && a.layers == b.layers;
}

/// A GGUF's norm behind a sum is over the values of a key head; Granite's is over all of them.
bool same_recurrence(const RecurrenceConfig& a, const RecurrenceConfig& b) {
  gpu::Recurrence rule = b.rule;
  rule.apart = a.rule.apart;
  return a.rule == rule && a.kernel_bias == b.kernel_bias &&
         a.projection_bias == b.projection_bias && nearly(a.norm_epsilon, b.norm_epsilon) &&
         (!a.sums() || a.norm_width * a.rule.key_heads == a.rule.values());
}

bool same_convolution(const ConvolutionConfig& a, const ConvolutionConfig& b) {
  return a.taps == b.taps && a.bias == b.bias;
}

/// Returns whether neither is there, or both are and are the same.
template <class T, class F>
bool both(const std::optional<T>& a, const std::optional<T>& b, const F& same) {
  return a.has_value() == b.has_value() && (!a || same(*a, *b));
}

bool same_sizes(const ModelConfig& a, const ModelConfig& b) {
  bool same = a.hidden == b.hidden && a.layers == b.layers && a.heads == b.heads &&
              a.vocabulary == b.vocabulary && a.layer_inputs == b.layer_inputs &&
              a.mixers.size() == b.mixers.size();
  for (int i = 0; same && i < a.layers; ++i) {
    const LayerConfig& own = a.mixers[std::size_t(i)];
    const LayerConfig& other = b.mixers[std::size_t(i)];
    const bool attends = own.mixer == Mixer::attention;
    const bool mixes = a.mixture_in(i) != nullptr && !a.mixture->apart;
    same = own.keys_of == other.keys_of && own.keys_as_values == other.keys_as_values &&
           (!attends ||
            (a.kv_heads_in(i) == b.kv_heads_in(i) && a.head_dim_in(i) == b.head_dim_in(i))) &&
           (mixes || a.ffn_in(i) == b.ffn_in(i));
  }
  return same;
}

} // namespace

std::string difference(const ModelConfig& a, const ModelConfig& b) {
  const std::pair<bool, const char*> parts[] = {
      {same_sizes(a, b), "sizes"},
      {a.context == b.context, "length of contexts"},
      {a.layer_norms == b.layer_norms && nearly(a.norm_epsilon, b.norm_epsilon) &&
           a.qk_norm == b.qk_norm && a.value_norm == b.value_norm,
       "norms"},
      {a.qkv_bias == b.qkv_bias && a.attention_out_bias == b.attention_out_bias &&
           a.ffn_bias == b.ffn_bias && a.head_bias == b.head_bias,
       "biases"},
      {nearly(a.embedding_scale, b.embedding_scale), "embedding"},
      {a.parallel == b.parallel && a.gated == b.gated && a.gating == b.gating, "feed-forwards"},
      {both(a.mixture, b.mixture, same_mixture), "experts"},
      {both(a.recurrence, b.recurrence, same_recurrence), "recurrent layers"},
      {both(a.convolution, b.convolution, same_convolution), "convolutions"},
      {a.layer_scales == b.layer_scales && a.positions.has_value() == b.positions.has_value(),
       "layers"},
      {nearly(a.attention_scale, b.attention_scale) &&
           nearly(a.attention_soft_cap, b.attention_soft_cap) && a.sinks == b.sinks &&
           a.output_gate == b.output_gate,
       "attention"},
      {nearly(a.logit_scale, b.logit_scale) && nearly(a.logit_soft_cap, b.logit_soft_cap),
       "logits"},
      {std::ranges::equal(a.ropes, b.ropes, same_rotation), "rotations"},
      {std::ranges::equal(a.mixers, b.mixers, same_mixer), "windows and rotations of layers"},
  };
  for (const auto& [same, what] : parts)
    if (!same)
      return what;
  return "";
}

} // namespace paceline::models
