// Products of many rows, which arithmetic and reading from the second-level cache bound: all warps
// of a block share what it reads, 128 outputs and up to 128 rows. A warp goes through all chains of
// its outputs, one after another, and so has the sums of product.cuh in the same order.
#pragma once

#include "gpu/cuda/product.cuh"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu::cuda::kernels {

/// How a block of eight warps works: each has tiles of outputs, and eight tiles of rows.
struct MatrixShape {
  int warp_tiles; ///< Tiles of outputs of a warp.
  int row_warps;  ///< Warps that share outputs, and have rows of their own.

  static constexpr int warps = 8;
  static constexpr int threads = warps * warp_lanes;
  static constexpr int warp_row_tiles = 8;
  static constexpr int stages = 3; ///< Spans that a block holds or has on their way.

  constexpr int tiles() const { return warps / row_warps * warp_tiles; }
  constexpr int row_tiles() const { return row_warps * warp_row_tiles; }
  constexpr int rows() const { return row_tiles() * tile_rows; }
};

/// What a block reads of a span of 64 inputs.
template <class Weights, MatrixShape shape>
struct MatrixStage {
  typename Weights::Span weights[shape.tiles()][span_steps / Weights::steps];
  uint2 rows[shape.row_tiles()][span_steps][warp_lanes];
};

/// The reads of one thread.
template <class Weights, MatrixShape shape>
class MatrixFeed {
  using Stage = MatrixStage<Weights, shape>;
  static constexpr int unit_bytes = 16;
  static constexpr int step_units = int(sizeof(uint2)) * warp_lanes / unit_bytes;
  static constexpr int tile_units = step_units * span_steps;
  static_assert(shape.tiles() == shape.warps, "each warp fetches a tile");

public:
  __device__ MatrixFeed(Stage* ring, const PackedWeight& w, int tile, const std::uint16_t* rows,
                        int first_row, int row_count)
      : ring_(ring), steps_(w.layout.padded_inputs() / step_inputs),
        has_tile_(tile + warp_index() < w.layout.tiles()), first_row_(first_row),
        row_count_(row_count),
        weights_(w.data + std::size_t(has_tile_ ? tile + warp_index() : 0) * w.layout.tile_bytes),
        rows_(reinterpret_cast<const std::byte*>(rows)) {}

  __device__ int steps() const { return steps_; }
  __device__ int spans() const { return divide_up(steps_, span_steps); }

  /// Fetches the weights of span `span` to place `place` of the ring; nothing after the last.
  __device__ void fetch_weights(int span, int place) {
    constexpr int parts = span_steps / Weights::steps;
    if (!has_tile_)
      return;
#pragma unroll
    for (int i = 0; i < parts; ++i)
      if (const int part = span * parts + i; part * Weights::steps < steps_)
        Weights::fetch(ring_[place].weights[warp_index()][i],
                       weights_ + std::size_t(part) * Weights::bytes, lane_index());
  }
  /// Fetches the rows of that span, with zeros for those that there are none of.
  __device__ void fetch_rows(int span, int place) {
    if (span >= spans())
      return;
    auto* to = reinterpret_cast<std::byte*>(ring_[place].rows);
    const int step = span * span_steps + int(threadIdx.x) / step_units % span_steps;
#pragma unroll
    for (int i = int(threadIdx.x); i < shape.row_tiles() * tile_units; i += shape.threads) {
      const int row = first_row_ + i / tile_units * tile_rows;
      const int unit = i % step_units;
      const bool there = row + unit / (step_units / tile_rows) < row_count_ && step < steps_;
      const std::size_t at =
          (std::size_t(row / tile_rows) * std::size_t(steps_) + std::size_t(step)) * step_units +
          std::size_t(unit);
      ptx::copy_async<unit_bytes>(to + i * unit_bytes, rows_ + (there ? at * unit_bytes : 0),
                                  there);
    }
  }

private:
  Stage* ring_;
  int steps_;
  bool has_tile_;
  int first_row_;
  int row_count_;
  const std::byte* weights_;
  const std::byte* rows_;
};

/// Computes a product. blockIdx: x: rows in groups of shape.rows(), y: outputs in groups of
/// shape.tiles() tiles. Groups of rows that read the same weights run side by side.
template <class Weights, int warp_tiles, int row_warps>
__global__ void __launch_bounds__(MatrixShape::threads)
    matrix_product(Tensor out, const std::uint16_t* staged, PackedWeight w, bool add) {
  constexpr MatrixShape shape{warp_tiles, row_warps};
  constexpr int stages = shape.stages;
  constexpr int row_tiles = shape.warp_row_tiles;
  using Stage = MatrixStage<Weights, shape>;
  auto* ring = ptx::shared_array<Stage>(stages);
  ptx::let_next_begin();
  const int tile = int(blockIdx.y) * shape.tiles();
  const int first_row = int(blockIdx.x) * shape.rows();
  MatrixFeed<Weights, shape> feed(ring, w, tile, staged, first_row, out.rows);
  for (int ahead = 0; ahead < stages - 1; ++ahead)
    feed.fetch_weights(ahead, ahead);
  ptx::await_previous();
  for (int ahead = 0; ahead < stages - 1; ++ahead)
    feed.fetch_rows(ahead, ahead);
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
      feed.fetch_weights(span + stages - 1, freed);
      feed.fetch_rows(span + stages - 1, freed);
      ptx::commit_copies();
      const Stage& stage = ring[place];
#pragma unroll
      for (int i = 0; i < span_steps; i += Weights::steps) {
        if (span * span_steps + i >= feed.steps())
          break;
        Weights weights[warp_tiles];
        for (int k = 0; k < warp_tiles; ++k)
          weights[k].load(stage.weights[own_tile + k][i / Weights::steps], lane_index());
        multiply_span(
            weights,
            [&](int step, int t) { return stage.rows[own_rows + t][i + step][lane_index()]; },
            sums);
      }
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
