// Rows that are rounded to 8 bits, and their products with weights whose codes are integers. A
// product's sums within a part are exact, and the parts are added in their order, so every family
// of kernels that fuses multiplications with additions gives the same bits.
#pragma once

#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/weight.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace paceline::gpu::cpu {

/// The place of rows among staged bytes. Rows are in groups of row_block. A group has its codes,
/// [block of 32 inputs][row][32]; then the scales of these, [block][row]; then what is added for
/// each part of the weight, [part][row]: if the weight has least values, the sum of the part's
/// inputs, a float; otherwise, a whole number, the sum of their codes times -IntegerCodes::offset.
class Int8Rows {
public:
  Int8Rows(const PackedWeight& w, int rows);

  std::size_t row_bytes() const {
    return std::size_t(padded_) + sizeof(float) * std::size_t(blocks_ + parts_);
  }
  /// Returns the number of rows in the group of this row.
  int group(int row) const { return std::min(row_block, rows_ - row / row_block * row_block); }
  std::size_t codes(int row, int block) const {
    return start(row) + place(row, block) * std::size_t(mx_block);
  }
  std::size_t scale(int row, int block) const {
    return start(row) + std::size_t(group(row)) * std::size_t(padded_) +
           place(row, block) * sizeof(float);
  }
  std::size_t added(int row, int part) const {
    return scale(row - row % row_block, blocks_) + place(row, part) * sizeof(float);
  }

private:
  std::size_t start(int row) const {
    return std::size_t(row / row_block * row_block) * row_bytes();
  }
  std::size_t place(int row, int index) const {
    return std::size_t(index) * std::size_t(group(row)) + std::size_t(row % row_block);
  }

  int rows_;
  int padded_;
  int blocks_;
  int parts_;
};

inline std::size_t int8_staged_bytes(int rows, const PackedWeight& w) {
  return std::size_t(rows) * Int8Rows(w, rows).row_bytes();
}

/// A block's inputs as they are staged: code i is inputs[i] * 127 / the largest size, rounded to
/// nearest, ties to even, and means as many times the scale. If an input is not finite, the scale
/// is NaN.
struct Int8Block {
  float scale = 0;
  std::array<std::int8_t, mx_block> codes{};
};
Int8Block round_to_int8(const float* inputs, int count);
/// Blocks whose inputs are all smaller have codes and a scale of 0.
inline constexpr float int8_least = 0x1p-100f;

/// Implement Kernels::stage and Kernels::linear as they are defined, for all weights that round
/// rows to 8 bits.
void stage_int8(std::byte* staged, Tensor in, const PackedWeight& w, int first, int last);
void linear_int8(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run, bool add);

/// Calls f(run, moderate) for runs of tiles that are all moderate, or whose weight has no
/// exponents for scales, and for runs of others, whose scales may be none.
template <class F>
void for_moderate_tiles(const PackedWeight& w, TileRun run, const F& f) {
  const auto moderate = [&](int tile) { return !is_mx(w.format()) || w.moderate(tile); };
  for (int first = run.first, end = first; first < run.last; first = end) {
    const bool kind = moderate(first);
    while (end < run.last && moderate(end) == kind)
      ++end;
    f(TileRun{first, end, run.behind(end)}, kind);
  }
}

} // namespace paceline::gpu::cpu
