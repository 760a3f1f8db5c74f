// Products of many rows, which arithmetic bounds: all warps of a block share what it reads, 128
// outputs and up to 128 rows. A warp goes through all chains of its outputs, one after another, and
// so has the sums of product.cuh in the same order. What comes next is fetched a bit between any
// two steps' products, since the matrix units stand idle while a warp does nothing but fetch.
#pragma once

#include "gpu/cuda/product.cuh"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu::cuda::kernels {

/// How a block of eight warps works, which has eight tiles of outputs.
struct MatrixShape {
  int row_tiles; ///< Tiles of rows of a block.
  int row_warps; ///< Warps that share outputs, and have rows of their own.

  static constexpr int warps = 8;
  static constexpr int threads = warps * warp_lanes;
  static constexpr int tiles = warps;
  static constexpr int stages = 3; ///< Spans that a block holds or has on their way.

  constexpr int rows() const { return row_tiles * tile_rows; }
  constexpr int warp_tiles() const { return tiles / (warps / row_warps); }
  constexpr int warp_row_tiles() const { return row_tiles / row_warps; }
};

/// What a block reads of a span of 64 inputs.
template <class Weights, MatrixShape shape>
struct MatrixStage {
  typename Weights::Span weights[shape.tiles][span_steps / Weights::steps];
  uint2 rows[shape.row_tiles][span_steps][warp_lanes];
};

/// The reads of one thread. A warp fetches a tile of outputs, and its share of the tiles of rows:
/// 16 threads a step of one.
template <class Weights, MatrixShape shape>
class MatrixFeed {
  using Stage = MatrixStage<Weights, shape>;
  static constexpr int unit_bytes = 16;
  static constexpr int step_units = int(sizeof(uint2)) * warp_lanes / unit_bytes;
  /// Steps of rows that all threads fetch at once.
  static constexpr int steps_at_once = shape.threads / (shape.row_tiles * step_units);
  static_assert(steps_at_once == 1 || steps_at_once == 2);

public:
  __device__ MatrixFeed(Stage* ring, const PackedWeight& w, int tile, const std::uint16_t* rows,
                        int first_row, int row_count)
      : ring_(ring), steps_(w.layout.padded_inputs() / step_inputs),
        has_tile_(tile + warp_index() < w.layout.tiles()),
        row_tile_(int(threadIdx.x) / (step_units * steps_at_once)),
        step_(int(threadIdx.x) / step_units % steps_at_once), unit_(int(threadIdx.x) % step_units),
        has_row_(first_row + row_tile_ * tile_rows + unit_ / (step_units / tile_rows) < row_count),
        weights_(w.data + std::size_t(has_tile_ ? tile + warp_index() : 0) * w.layout.tile_bytes),
        rows_(reinterpret_cast<const std::byte*>(rows)) {
    if (has_row_)
      rows_ += (std::size_t(first_row / tile_rows + row_tile_) * std::size_t(steps_) * step_units +
                std::size_t(unit_)) *
               unit_bytes;
  }

  __device__ int steps() const { return steps_; }
  __device__ int spans() const { return divide_up(steps_, span_steps); }

  /// Fetches what comes in at step `i` of four, of the weights of span `span`, to place `place` of
  /// the ring; nothing after the last span. Steps that it lacks are zeros, so that all spans are
  /// multiplied alike.
  __device__ void fetch_weights(int span, int place, int i) {
    if (i % Weights::steps != 0 || !has_tile_ || span >= spans())
      return;
    const int part = i / Weights::steps;
    const int index = span * (span_steps / Weights::steps) + part;
    auto& to = ring_[place].weights[warp_index()][part];
    if constexpr (Weights::steps == 1) {
      const bool there = index < steps_;
      Weights::fetch(to, weights_ + (there ? std::size_t(index) * Weights::bytes : 0), lane_index(),
                     there);
    } else {
      Weights::fetch(to, weights_ + std::size_t(index) * Weights::bytes, lane_index());
    }
  }
  /// Does the same with rows, with zeros for those that there are none of.
  __device__ void fetch_rows(int span, int place, int i) {
    if (i % steps_at_once != 0 || span >= spans())
      return;
    const int step = span * span_steps + i + step_;
    const bool there = has_row_ && step < steps_;
    auto* to = reinterpret_cast<std::byte*>(ring_[place].rows[row_tile_][i + step_]);
    ptx::copy_async<unit_bytes>(to + unit_ * unit_bytes,
                                rows_ + (there ? std::size_t(step) * (step_units * unit_bytes) : 0),
                                there);
  }

private:
  Stage* ring_;
  int steps_;
  bool has_tile_;
  int row_tile_; ///< Of the rows that this thread fetches,
  int step_;     ///< the step,
  int unit_;     ///< and the 16 bytes of it.
  bool has_row_;
  const std::byte* weights_;
  const std::byte* rows_;
};

/// Computes a product. blockIdx: x: rows in groups of shape.rows(), y: outputs in groups of
/// shape.tiles tiles. Groups of rows that read the same weights run side by side.
template <class Weights, int block_row_tiles, int row_warps>
__global__ void __launch_bounds__(MatrixShape::threads)
    matrix_product(Tensor out, const std::uint16_t* staged, PackedWeight w, bool add) {
  constexpr MatrixShape shape{block_row_tiles, row_warps};
  constexpr int stages = shape.stages;
  constexpr int warp_tiles = shape.warp_tiles();
  constexpr int row_tiles = shape.warp_row_tiles();
  using Stage = MatrixStage<Weights, shape>;
  auto* ring = ptx::shared_array<Stage>(stages);
  ptx::let_next_begin();
  const int tile = int(blockIdx.y) * shape.tiles;
  const int first_row = int(blockIdx.x) * shape.rows();
  MatrixFeed<Weights, shape> feed(ring, w, tile, staged, first_row, out.rows);
  for (int ahead = 0; ahead < stages - 1; ++ahead)
    for (int i = 0; i < span_steps; ++i)
      feed.fetch_weights(ahead, ahead, i);
  ptx::await_previous();
  for (int ahead = 0; ahead < stages - 1; ++ahead)
    for (int i = 0; i < span_steps; ++i)
      feed.fetch_rows(ahead, ahead, i);
  ptx::commit_copies();
  ptx::wait_for_copies<0>(); // Waits for all of these; then a span is a group.

  const int own_tile = warp_index() / row_warps * warp_tiles;
  const int own_rows = warp_index() % row_warps * row_tiles;
  const int log2 = __ffs(w.layout.chains()) - 1;
  float sums[warp_tiles][row_tiles][4] = {};
  float totals[warp_tiles][row_tiles][4];
  int span = 0;
  int place = 0;
  for (int chain = 0; chain < 1 << log2; ++chain) {
    for (const int end = first_span_of(chain + 1, log2, feed.steps()); span < end; ++span) {
      ptx::wait_for_copies<stages - 2>();
      __syncthreads(); // All have the span, and have read the last one.
      const int freed = place == 0 ? stages - 1 : place - 1;
      const Stage& stage = ring[place];
#pragma unroll
      for (int i = 0; i < span_steps; i += Weights::steps) {
        Weights weights[warp_tiles];
        for (int k = 0; k < warp_tiles; ++k)
          weights[k].load(stage.weights[own_tile + k][i / Weights::steps], lane_index());
        multiply_span(
            weights,
            [&](int step, int t) { return stage.rows[own_rows + t][i + step][lane_index()]; },
            [&](int step) {
              feed.fetch_weights(span + stages - 1, freed, i + step);
              feed.fetch_rows(span + stages - 1, freed, i + step);
            },
            sums);
      }
      ptx::commit_copies();
      place = place + 1 == stages ? 0 : place + 1;
    }
#pragma unroll
    for (int k = 0; k < warp_tiles; ++k)
#pragma unroll
      for (int t = 0; t < row_tiles; ++t)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          totals[k][t][j] = chain == 0 ? sums[k][t][j] : totals[k][t][j] + sums[k][t][j];
          sums[k][t][j] = 0;
        }
  }

#pragma unroll
  for (int k = 0; k < warp_tiles; ++k)
#pragma unroll
    for (int t = 0; t < row_tiles; ++t)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int output = (tile + own_tile + k) * tile_outputs + lane_index() / 4 + j / 2 * 8;
        const int row = first_row + (own_rows + t) * tile_rows + lane_index() % 4 * 2 + j % 2;
        if (row < out.rows && output < w.layout.outputs)
          store(out.row(row)[output], totals[k][t][j], w.bias ? w.bias + output : nullptr, add);
      }
}

} // namespace paceline::gpu::cuda::kernels
