// The rows that a recurrent layer reads in a pass, on the CPU: those that lie beside a state, and
// the pass's own.
#pragma once

#include "gpu/recurrence.hpp"
#include "gpu/tensor.hpp"

#include <algorithm>
#include <cassert>

namespace paceline::gpu::cpu {

/// The rows of one run by their positions.
class RunRows {
public:
  /// in: the rows of all runs of the pass. They lie beside states from the column `first` on.
  RunRows(const StateLayer& states, const StateRun& run, Tensor in, int taps, int first = 0)
      : states_(states), run_(run), in_(in), taps_(taps), first_(first) {}

  int row_of(int position) const { return run_.first_row + position - run_.position; }
  const float* at(int position) const {
    return position < run_.position ? kept(run_.state_before(), position)
                                    : in_.row(row_of(position));
  }

  /// Adds to `sums` a convolution of the rows up to `position`, in the columns [first, first +
  /// count). kernel: [taps, columns]
  void add_convolution(float* sums, int position, const float* kernel, int first, int count) const {
    const auto each_tap = [&](const auto& use) {
      for (int tap = std::max(0, taps_ - 1 - position); tap < taps_; ++tap)
        use(at(position - taps_ + 1 + tap) + first,
            kernel + std::ptrdiff_t(tap) * in_.cols + first);
    };
    constexpr int line = 64 / int(sizeof(float));
    // What is read is short, and far from each other.
    each_tap([&](const float* row, const float* weights) {
      for (int i = 0; i < count; i += line) {
        __builtin_prefetch(row + i);
        __builtin_prefetch(weights + i);
      }
    });
    each_tap([&](const float* row, const float* weights) {
      for (int i = 0; i < count; ++i)
        sums[i] += weights[i] * row[i];
    });
  }

  /// Keeps columns [first, end) of the rows that the next pass reads, and those of a snapshot.
  /// Nobody may still read them in the rows that these replace.
  void keep(int first, int end) const {
    assert(run_.end() - run_.certain + taps_ <= states_.layout.kept);
    for (int p = run_.first_in_snapshot(taps_); run_.snapshot >= 0 && p < run_.snapshot_at; ++p)
      std::copy(at(p) + first, at(p) + end, kept(std::uint32_t(run_.snapshot), p) + first);
    for (int p = run_.first_kept(taps_); p < run_.end(); ++p)
      std::copy(at(p) + first, at(p) + end, kept(run_.state, p) + first);
  }

private:
  float* kept(std::uint32_t state, int position) const {
    return states_.of(state) + states_.layout.row_at(position) + first_;
  }

  const StateLayer& states_;
  const StateRun& run_;
  const Tensor in_;
  const int taps_;
  const int first_;
};

} // namespace paceline::gpu::cpu
