// Recurrent layers: a state for each sequence in place of keys and values for each position, and
// how a pass advances it.
//
// A state holds the leading positions of its sequence that are certain to stay. The rows of a pass
// behind these may be taken back, so the pass computes them from a copy, and keeps what it read of
// them beside the state. The pass that finds them certain advances the state by them first, in
// their order: it gets the bits that plain decoding gives it, and a rejection costs nothing.
#pragma once

#include "base/host_device.hpp"
#include "gpu/kv_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::gpu {

/// A gated delta rule behind a short causal convolution (Yang et al. 2025, "Gated Delta Networks",
/// equation 10, as in Qwen 3.5). A value head's state is a matrix S [key_dim, value_dim]. A row
/// with the key k, the value v, the query q, the decay a and the rate b makes it
///   a S + k (b (v - (a S)^T k))^T, and gives (that)^T q.
/// k and q are those of a key head, which several value heads share, at length 1 and 1
/// / sqrt(key_dim). They and the values are what silu makes of a convolution of each channel over
/// the last `taps` rows. Constants are f32, in device memory.
struct DeltaRule {
  int key_heads = 0;
  int value_heads = 0; ///< A multiple of key_heads.
  int key_dim = 0;
  int value_dim = 0;
  int taps = 0; ///< Rows that the convolution reads, a row's own the last.
  /// Value heads that share a key head lie key_heads apart; else they follow each other.
  bool apart = false;
  const float* kernel = nullptr;  ///< [taps, channels]
  const float* speeds = nullptr;  ///< [value_heads]: a is exp(speed * softplus(its rate + offset)).
  const float* offsets = nullptr; ///< [value_heads]

  PACELINE_HOST_DEVICE int keys() const { return key_heads * key_dim; }
  PACELINE_HOST_DEVICE int values() const { return value_heads * value_dim; }
  /// Returns the numbers of a row: queries, then keys, then values.
  PACELINE_HOST_DEVICE int channels() const { return 2 * keys() + values(); }
  /// Returns the numbers of a row of rates: those of b, before sigmoid, and then those of a.
  PACELINE_HOST_DEVICE int rates() const { return 2 * value_heads; }
  /// Returns the number of a key head's ith value head.
  PACELINE_HOST_DEVICE int value_head(int key_head, int i) const {
    return apart ? i * key_heads + key_head : key_head * (value_heads / key_heads) + i;
  }
  PACELINE_HOST_DEVICE int key_head_of(int value_head) const {
    return apart ? value_head % key_heads : value_head / (value_heads / key_heads);
  }
  bool operator==(const DeltaRule&) const = default;
};

/// How the states of a model's recurrent layers lie in memory: [layer], each S of every value head
/// and then `kept` rows of channels and rates, the row of position p at p % kept. All are f32.
struct StateLayout {
  int layers = 0;
  int value_heads = 0;
  int head_floats = 0; ///< Of S.
  int row_floats = 0;
  int kept = 0;

  StateLayout() = default;
  /// tentative: the most rows of a sequence that a pass may have to take back.
  StateLayout(const DeltaRule& rule, int recurrent_layers, int tentative)
      : layers(recurrent_layers), value_heads(rule.value_heads),
        head_floats(rule.key_dim * rule.value_dim), row_floats(rule.channels() + rule.rates()),
        kept(tentative + rule.taps) {}

  std::size_t layer_floats() const {
    return std::size_t(value_heads) * std::size_t(head_floats) +
           std::size_t(kept) * std::size_t(row_floats);
  }
  std::size_t bytes() const { return std::size_t(layers) * layer_floats() * sizeof(float); }
  bool operator==(const StateLayout&) const = default;
};

/// The rows of one sequence in a pass. They begin where the state ends, or behind that, or one
/// before it: what a row gives can be read again from a state that it was the last to change.
struct StateRun {
  std::uint32_t state = 0; ///< Number of the state in the pool.
  int first_row = 0;       ///< Its first row in the pass.
  int rows = 0;
  int position = 0; ///< Position of the first row.
  int held = 0;     ///< Positions that the state holds before the pass.
  int certain = 0;  ///< Positions that it holds behind it, held or more.
  /// The state that this one is a copy of before the pass; -1: it is as the last pass left it.
  std::int32_t begin = -1;
  /// The state that is a copy of this one as it holds `snapshot_at` positions; -1: none.
  std::int32_t snapshot = -1;
  int snapshot_at = 0; ///< From held to certain.

  PACELINE_HOST_DEVICE int end() const {
    return position + rows;
  } ///< Behind the last row's position.
};

/// One recurrent layer's part of the states.
struct StateLayer {
  const KvPool* pool = nullptr;
  StateLayout layout;
  int layer = 0;

  float* of(std::uint32_t state) const {
    return reinterpret_cast<float*>(pool->state(state)) +
           std::size_t(layer) * layout.layer_floats();
  }
};

} // namespace paceline::gpu
