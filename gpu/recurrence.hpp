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
#include <limits>
#include <span>

namespace paceline::gpu {

/// What a row adds to a state.
enum class StateUpdate {
  delta, ///< A gated delta rule (Yang et al. 2025, "Gated Delta Networks", equation 10; Qwen 3.5).
  sum,   ///< Mamba-2 (Dao and Gu 2024, "Transformers are SSMs", section 3; Granite 4).
};

/// A recurrence behind a short causal convolution. A value head's state is a matrix S [key_dim,
/// value_dim]. A row with the key k, the value v, the query q, the decay a and the rate b makes it
///   a S + k (b (v - (a S)^T k))^T, and gives (that)^T q      (StateUpdate::delta), or
///   a S + k (b v)^T, and gives (that)^T q + skip v           (StateUpdate::sum).
/// k and q are those of a key head, which several value heads share; with `delta` at length 1 and 1
/// / sqrt(key_dim). They and the values are what silu makes of a convolution of each channel over
/// the last `taps` rows. Constants are f32, in device memory.
struct Recurrence {
  StateUpdate update = StateUpdate::delta;
  int key_heads = 0;
  int value_heads = 0; ///< A multiple of key_heads.
  int key_dim = 0;
  int value_dim = 0;
  int taps = 0; ///< Rows that the convolution reads, a row's own the last.
  /// Value heads that share a key head lie key_heads apart; else they follow each other.
  bool apart = false;
  float time_least = 0; ///< Bounds of a row's time.
  float time_most = std::numeric_limits<float>::infinity();
  const float* kernel = nullptr;  ///< [taps, channels]
  const float* bias = nullptr;    ///< [channels], the convolution's; null: there is none.
  const float* speeds = nullptr;  ///< [value_heads]: a is exp(speed * time).
  const float* offsets = nullptr; ///< [value_heads]: the time is softplus(its rate + offset).
  const float* skips = nullptr;   ///< [value_heads], for StateUpdate::sum.

  PACELINE_HOST_DEVICE int keys() const { return key_heads * key_dim; }
  PACELINE_HOST_DEVICE int values() const { return value_heads * value_dim; }
  /// Returns the numbers of a row: queries, then keys, then values.
  PACELINE_HOST_DEVICE int channels() const { return 2 * keys() + values(); }
  /// Returns the numbers of a row of rates: those of times, and before them, with `delta`, those of
  /// b, before sigmoid. With `sum` b is the time.
  PACELINE_HOST_DEVICE int rates() const { return first_time() + value_heads; }
  PACELINE_HOST_DEVICE int first_time() const {
    return update == StateUpdate::delta ? value_heads : 0;
  }
  /// Returns the number of a key head's ith value head.
  PACELINE_HOST_DEVICE int value_head(int key_head, int i) const {
    return apart ? i * key_heads + key_head : key_head * (value_heads / key_heads) + i;
  }
  PACELINE_HOST_DEVICE int key_head_of(int value_head) const {
    return apart ? value_head % key_heads : value_head / (value_heads / key_heads);
  }
  bool operator==(const Recurrence&) const = default;
};

/// An RMS norm of each `width` numbers that follow each other in a row, and its gates: the numbers
/// are multiplied by silu(gate) behind it or, with `gates_first`, before it.
struct GatedNorm {
  const float* weight =
      nullptr; ///< [width], or [values] with `gates_first`; f32, in device memory.
  int width = 0;
  float epsilon = 0;
  bool gates_first = false;

  bool operator==(const GatedNorm&) const = default;
};

/// A short causal convolution between two gates (Liquid AI's LFM 2, 2025). A row has gates g, gates
/// h and values x, `channels` of each; it gives h (c + sum over the last `taps` rows, its own the
/// last, of kernel * (g x)). Constants are f32, in device memory.
struct ShortConvolution {
  int channels = 0;
  int taps = 0;
  const float* kernel = nullptr; ///< [taps, channels]
  const float* bias = nullptr;   ///< [channels], c; null: there is none.

  PACELINE_HOST_DEVICE int row() const { return 3 * channels; } ///< The numbers of a row: g, h, x.
  bool operator==(const ShortConvolution&) const = default;
};

/// How the states of a model's recurrent layers lie in memory: [layer], each S of every value head
/// and then `kept` rows of what the recurrence reads, the row of position p at p % kept: channels
/// and rates, or the products g x of a short convolution, which has no S. All are f32.
struct StateLayout {
  int layers = 0;
  int value_heads = 0;
  int head_floats = 0; ///< Of S.
  int row_floats = 0;
  int kept = 0;

  StateLayout() = default;
  /// tentative: the most rows of a sequence that a pass may have to take back.
  StateLayout(const Recurrence& rule, int recurrent_layers, int tentative)
      : layers(recurrent_layers), value_heads(rule.value_heads),
        head_floats(rule.key_dim * rule.value_dim), row_floats(rule.channels() + rule.rates()),
        kept(tentative + rule.taps) {}
  StateLayout(const ShortConvolution& convolution, int recurrent_layers, int tentative)
      : layers(recurrent_layers), row_floats(convolution.channels),
        kept(tentative + convolution.taps) {}

  /// Returns the floats of a layer's part before its kept rows.
  PACELINE_HOST_DEVICE std::size_t matrix_floats() const {
    return std::size_t(value_heads) * std::size_t(head_floats);
  }
  /// Returns the floats of a layer's part before the row of a position.
  PACELINE_HOST_DEVICE std::size_t row_at(int position) const {
    return matrix_floats() + std::size_t(position % kept) * std::size_t(row_floats);
  }
  std::size_t layer_floats() const {
    return matrix_floats() + std::size_t(kept) * std::size_t(row_floats);
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
  /// Returns the state beside which the rows before the first one's position lie.
  PACELINE_HOST_DEVICE std::uint32_t state_before() const {
    return begin >= 0 ? std::uint32_t(begin) : state;
  }
  /// Return the first position whose row is to lie beside the state, and beside the snapshot. What
  /// comes next convolves from the last row that a state holds on: it may be read again.
  PACELINE_HOST_DEVICE int first_kept(int taps) const {
    const int least = begin >= 0 ? 0 : position;
    return certain - taps > least ? certain - taps : least;
  }
  PACELINE_HOST_DEVICE int first_in_snapshot(int taps) const {
    return snapshot_at > taps ? snapshot_at - taps : 0;
  }
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
