// Products with weights that meet rows of bf16. A decode step is bound by reading weights, so each
// is read once for up to 64 rows, in the order of memory.
//
// Weights are operand A of the matrix instruction, 16 outputs of it, rows of
// activations are operand B, 8 of them. A block makes 16 outputs; its warps take a contiguous part
// of the inputs each (the chains) and the sums are added in order at the end. Every lane prefetches
// into shared memory only what it will read itself, so that no lane waits for another, and begins
// with the weights before the kernel that makes the rows has ended.
// One kernel serves all numbers of rows and, except for how it reads them, all weights: a row's
// sums are the same instructions in the same order. A product by experts is the same kernel, in
// which a block has the rows that go to its expert, wherever they lie.
#pragma once

#include "gpu/cuda/weights.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace paceline::gpu::cuda::kernels {

constexpr int product_warps_max = 8;

/// What a block multiplies: rows [first, end) of the product with an expert's outputs.
struct Part {
  int expert;
  int first;
  int end;
};

/// A product of all rows with all outputs: a mixture of one expert.
struct AllRows {
  static constexpr bool routed = false;
  int count;

  __device__ Part part() const { return {0, 0, count}; }
  /// Returns the row of the input that makes a row of the product.
  __device__ int source(int row) const { return row; }
  /// Returns the weight's tile that is tile `tile` of `tiles` of an expert; it may have none.
  __device__ int tile(int /*expert*/, int /*tiles*/, int tile) const { return tile; }
  bool operator==(const AllRows&) const = default;
};

/// A product by experts. blockIdx.z is an expert, or a slot if these are fewer: the first one of an
/// expert's does its work.
struct ExpertRows {
  static constexpr bool routed = true;
  Routing routing;
  RoutedRows order;

  int first_tile = 0; ///< The weight's first tile, counted over the experts of the whole stack.

  PACELINE_HOST_DEVICE bool by_slots() const { return routing.picks() < routing.experts; }
  int parts() const { return by_slots() ? routing.picks() : routing.experts; }
  /// Returns the part, which is empty if another block does the work. Routing must be known.
  __device__ Part part() const {
    const int z = int(blockIdx.z);
    const int expert = by_slots() ? routing.chosen[routing.picks_of[z]] : z;
    const int first = routing.first[expert];
    return {expert, first, by_slots() && first != z ? first : routing.first[expert + 1]};
  }
  __device__ int source(int row) const {
    return order == RoutedRows::by_slot ? row : routing.picks_of[row] / routing.top_k;
  }
  __device__ int tile(int expert, int tiles, int tile) const {
    return expert * tiles + tile - first_tile;
  }
  bool operator==(const ExpertRows&) const = default;
};

/// Stores the result of a product: (sum + what was there) + bias. bias: the output's, or null.
__device__ __forceinline__ void store(float& to, float sum, const float* bias, bool add) {
  const float whole = add ? sum + to : sum;
  to = bias ? whole + *bias : whole;
}

/// Returns the number of spans that a lane holds or has on their way.
template <class Weights>
constexpr int stages_of(int row_tiles) {
  constexpr bool plain = Weights::steps == 1;
  switch (row_tiles) {
  case 1: return plain ? 12 : 5;
  case 2: return plain ? 10 : 4;
  case 4: return plain ? 8 : 3;
  default: return plain ? 6 : 2;
  }
}

/// A chain's shared memory.
template <class Weights, int row_tiles>
union ChainShared {
  struct Stage {
    typename Weights::Span weights;
    uint2 rows[Weights::steps][row_tiles][warp_lanes];
  };
  Stage ring[stages_of<Weights>(row_tiles)];
  float sums[tile_rows * row_tiles][tile_outputs]; ///< Used once all is read.
};

/// The reads of one lane in a product, span by span along its chain.
template <class Weights, int row_tiles, class Rows>
class Feed {
public:
  using Stage = typename ChainShared<Weights, row_tiles>::Stage;

  /// first_row, end_row: the rows that the block multiplies, or more.
  __device__ Feed(Stage* ring, const PackedWeight& w, int tile, const std::uint16_t* rows,
                  const Rows& all, int first_row, int end_row)
      : ring_(ring), lane_(lane_index()), first_row_(first_row), end_row_(end_row),
        steps_(w.layout.padded_inputs() / step_inputs),
        first_span_(first_of(warp_index(), w.layout.chains())),
        last_span_(std::min(first_of(warp_index() + 1, w.layout.chains()),
                            divide_up(steps_, Weights::steps))),
        weights_(w.data + std::size_t(tile) * w.layout.tile_bytes),
        rows_(reinterpret_cast<const uint2*>(rows)) {
    if constexpr (Rows::routed)
      for (int t = 0; t < row_tiles; ++t) {
        const int row = first_row_ + t * tile_rows + lane_ / 4;
        sources_[t] = row < end_row_ ? all.source(row) : 0;
      }
  }

  /// Return the chain's first span, and the one after the last.
  __device__ int first_span() const { return first_span_; }
  __device__ int last_span() const { return last_span_; }

  /// Fetches the weights of span `span` to place `place` of the ring; nothing after the chain's
  /// last.
  __device__ void fetch_weights(int span, int place) {
    if (span < last_span())
      Weights::fetch(ring_[place].weights, weights_ + std::size_t(span) * Weights::bytes, lane_);
  }
  /// Fetches the rows of that span's steps, which may go beyond the rows' last one.
  __device__ void fetch_rows(int span, int place) {
    if (span >= last_span())
      return;
    const int first_step = span * Weights::steps;
    for (int t = 0; t < row_tiles; ++t) {
      const int row = first_row_ + t * tile_rows;
      const bool there = row + lane_ / 4 < end_row_;
      std::size_t step =
          std::size_t(row / tile_rows) * std::size_t(steps_) + std::size_t(first_step);
      int lane = lane_;
      if constexpr (Rows::routed) { // Rows of a tile may lie anywhere.
        step = std::size_t(sources_[t] / tile_rows) * std::size_t(steps_) + std::size_t(first_step);
        lane = sources_[t] % tile_rows * 4 + lane_ % 4;
      }
      const uint2* from = rows_ + (there ? step * warp_lanes + std::size_t(lane) : 0);
      for (int i = 0; i < Weights::steps; ++i)
        ptx::copy_async<8>(&ring_[place].rows[i][t][lane_], from + i * warp_lanes,
                           there && (i == 0 || first_step + i < steps_));
    }
  }

  __device__ void multiply(int place, float (&sums)[row_tiles][4]) const {
    Weights weights;
    weights.load(ring_[place].weights, lane_);
    if constexpr (has_factors<Weights>)
      return multiply_parts(weights, place, sums);
    else {
#pragma unroll
      for (int i = 0; i < Weights::steps; ++i) {
        const uint4 operand = weights.operand(i);
        for (int t = 0; t < row_tiles; ++t)
          ptx::multiply_add(sums[t], operand, ring_[place].rows[i][t][lane_]);
      }
    }
  }

private:
  /// Returns a chain's first span. Chains are the same for all formats, whole spans of the longest.
  __device__ int first_of(int chain, int chains) const {
    return divide_up(steps_, span_steps) * chain / chains * (span_steps / Weights::steps);
  }

  __device__ void multiply_parts(const Weights& weights, int place,
                                 float (&sums)[row_tiles][4]) const {
    constexpr std::uint32_t one = both(0x3F80);
    constexpr int part_steps = Weights::part_steps;
#pragma unroll
    for (int part = 0; part < Weights::steps / part_steps; ++part) {
      const int first = part * part_steps;
      uint4 operands[part_steps];
      for (int i = 0; i < part_steps; ++i)
        operands[i] = weights.operand(first + i);
      const PartFactors by = weights.factors(part);
      for (int t = 0; t < row_tiles; ++t) {
        float products[4] = {};
        float inputs[4] = {};
        for (int i = 0; i < part_steps; ++i) {
          const uint2 rows = ring_[place].rows[first + i][t][lane_];
          ptx::multiply_add(products, operands[i], rows);
          if (Weights::has_least)
            ptx::multiply_add(inputs, {one, one, one, one}, rows);
        }
        for (int j = 0; j < 4; ++j) {
          sums[t][j] = fmaf(products[j], by.scale[j / 2], sums[t][j]);
          if (Weights::has_least)
            sums[t][j] = fmaf(inputs[j], by.least[j / 2], sums[t][j]);
        }
      }
    }
  }

  Stage* ring_;
  int lane_;
  int first_row_;
  int end_row_;
  int steps_;
  int first_span_;
  int last_span_;
  const std::byte* weights_;
  const uint2* rows_;
  int sources_[Rows::routed ? row_tiles : 1]; ///< Rows of the input, if they are routed.
};

/// Computes a product. blockIdx: x: rows in groups of 8 row_tiles, y: tile of an expert's outputs,
/// z: as Rows says. Groups of rows that read the same weights run side by side.
template <class Weights, int row_tiles, class Rows>
__global__ void __launch_bounds__(product_warps_max* warp_lanes)
    product(Tensor out, const std::uint16_t* staged, PackedWeight w, bool add, Rows rows) {
  const int chains = w.layout.chains();
  auto* shared = ptx::shared_array<ChainShared<Weights, row_tiles>>(chains);
  constexpr int stages = stages_of<Weights>(row_tiles);
  constexpr int group = tile_rows * row_tiles;
  const int chain = warp_index();
  ptx::let_next_begin();
  if constexpr (Rows::routed) // The kernel ahead decides which weights are read.
    ptx::await_previous();
  const Part part = rows.part();
  const int first_row = part.first + int(blockIdx.x) * group;
  if (Rows::routed && first_row >= part.end)
    return;
  const int column = int(blockIdx.y) * tile_outputs;
  const int tile = rows.tile(part.expert, int(gridDim.y), int(blockIdx.y));
  if (Rows::routed && unsigned(tile) >= unsigned(w.layout.tiles()))
    return;
  Feed<Weights, row_tiles, Rows> feed(shared[chain].ring, w, tile, staged, rows, first_row,
                                      part.end);

  float sums[row_tiles][4] = {};
  for (int ahead = 0; ahead < stages - 1; ++ahead)
    feed.fetch_weights(feed.first_span() + ahead, ahead);
  if constexpr (!Rows::routed)
    ptx::await_previous();
  for (int ahead = 0; ahead < stages - 1; ++ahead)
    feed.fetch_rows(feed.first_span() + ahead, ahead);
  ptx::commit_copies();
  ptx::wait_for_copies<0>(); // Waits for all of these; then a span is a group.
  for (int span = feed.first_span(), place = 0; span < feed.last_span(); ++span) {
    ptx::wait_for_copies<stages - 2>();
    const int freed = place == 0 ? stages - 1 : place - 1; // Read in the last round.
    feed.fetch_weights(span + stages - 1, freed);
    feed.fetch_rows(span + stages - 1, freed);
    ptx::commit_copies();
    feed.multiply(place, sums);
    place = place + 1 == stages ? 0 : place + 1;
  }

  __syncthreads(); // Sums overwrite what other warps read.
  const int g = lane_index() / 4;
  const int t = lane_index() % 4;
  for (int i = 0; i < row_tiles; ++i)
    for (int j = 0; j < 4; ++j)
      shared[chain].sums[i * tile_rows + 2 * t + j % 2][g + j / 2 * 8] = sums[i][j];
  __syncthreads();
  for (int i = int(threadIdx.x); i < group * tile_outputs; i += int(blockDim.x)) {
    const int row = i / tile_outputs;
    const int output = tile * tile_outputs + i % tile_outputs;
    if (first_row + row >= part.end || output >= w.layout.outputs)
      continue;
    float sum = shared[0].sums[row][i % tile_outputs];
    for (int c = 1; c < chains; ++c)
      sum += shared[c].sums[row][i % tile_outputs];
    store(out.row(first_row + row)[column + i % tile_outputs], sum,
          w.bias ? w.bias + output : nullptr, add);
  }
}

/// A product with its rows as `Rows` says, in a grid for so many rows of each of its parts.
template <class Rows>
struct ProductCall {
  Tensor out;
  Tensor in;
  StagedRows staged;
  const PackedWeight& w;
  bool add;
  Rows rows;
  int rows_max; ///< Most rows of a part,
  int rows_few; ///< and how many it has mostly.
  int tiles;    ///< Tiles of a part.
  int parts;
};

template <class Weights, int row_tiles, class Rows>
cudaError_t launch_tiles(const Queue& queue, const ProductCall<Rows>& call) {
  const dim3 grid(unsigned(divide_up(call.rows_max, row_tiles * tile_rows)), unsigned(call.tiles),
                  unsigned(call.parts));
  const int chains = call.w.layout.chains();
  return launch(queue, grid, chains * warp_lanes,
                std::size_t(chains) * sizeof(ChainShared<Weights, row_tiles>),
                product<Weights, row_tiles, Rows>, call.out, call.staged.data, call.w, call.add,
                call.rows);
}

/// Takes as many rows at once as there are, up to 64, or as a block's shared memory has room for.
template <class Weights, int row_tiles = 8, class Rows>
cudaError_t launch_product(const Queue& queue, const ProductCall<Rows>& call) {
  if constexpr (row_tiles > 1) {
    const bool room =
        std::size_t(call.w.layout.chains()) * sizeof(ChainShared<Weights, row_tiles>) <=
        shared_bytes_most;
    if (!room || call.rows_few <= tile_rows * row_tiles / 2)
      return launch_product<Weights, row_tiles / 2>(queue, call);
  }
  return launch_tiles<Weights, row_tiles>(queue, call);
}

/// Launches a product with scaled codes (linear_scaled.cu).
cudaError_t multiply_scaled(const Queue& queue, const ProductCall<AllRows>& call);
cudaError_t multiply_scaled(const Queue& queue, const ProductCall<ExpertRows>& call);

} // namespace paceline::gpu::cuda::kernels
