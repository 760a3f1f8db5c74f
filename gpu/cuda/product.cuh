// Products with weights that meet rows of bf16. A decode step is bound by reading weights, so each
// is read once for up to 64 rows, in the order of memory.
//
// Weights are operand A of the matrix instruction, 16 outputs of it, rows of activations are
// operand B, 8 of them. Inputs are cut into contiguous parts (the chains), which a block's warps
// take, and the chains' sums are added in order at the end. Every lane prefetches into shared
// memory only what it will read itself, so that no lane waits for another, and begins with the
// weights before the kernel that makes the rows has ended. One kernel serves all weights, except
// for how it reads them: a row's sums are the same instructions in the same order, whatever a
// block's shape, and so they are in matrix_product.cuh, where rows are many. A product by experts
// is the same kernel, in which a block has the rows that go to its expert, wherever they lie.
#pragma once

#include "gpu/cuda/gate.cuh"
#include "gpu/cuda/weights.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace paceline::gpu::cuda::kernels {

/// How a block works.
struct BlockShape {
  int tiles;     ///< Tiles of outputs that it makes, for which it reads rows once,
  int row_tiles; ///< of so many tiles of rows.
  /// Whether it holds so much that a multiprocessor has room for two of it, else for three.
  bool deep = false;

  /// Returns the chains that a warp may have to take, one behind the other: a warp for each of 16
  /// chains would leave too few registers with many rows, and many GPUs have too little shared
  /// memory for it.
  constexpr int chains_each() const { return tiles == 1 ? 2 : 1; }
  constexpr int warps_max() const { return tiles == 1 && row_tiles == 1 ? 16 : 8; }
};

/// What a block multiplies: rows [first, end) of the product with an expert's outputs.
struct Part {
  int expert;
  int first;
  int end;
};

/// A product of all rows with all outputs: a mixture of one expert.
struct AllRows {
  static constexpr bool routed = false;
  static constexpr bool gates = false;
  int count;

  __device__ Part part() const { return {0, 0, count}; }
  /// Returns the row of the input that makes a row of the product.
  __device__ int source(int row) const { return row; }
  /// Returns the weight's tile that is tile `tile` of `tiles` of an expert; it may have none.
  __device__ int tile(int /*expert*/, int /*tiles*/, int tile) const { return tile; }
  bool operator==(const AllRows&) const = default;
};

/// A product of all rows with gates and ups, whole tiles of each, one below the other: a block
/// makes a tile of both, and leaves what the gates make of the ups.
struct GatedRows : AllRows {
  static constexpr bool gates = true;
  Gating gating;
  StagedRows staged; ///< Gets the result.

  bool operator==(const GatedRows&) const = default;
};

/// A product by experts. blockIdx.z is an expert, or a slot if these are fewer: the first one of an
/// expert's does its work.
struct ExpertRows {
  static constexpr bool routed = true;
  static constexpr bool gates = false;
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

/// Does nothing aside.
struct Nothing {
  __device__ __forceinline__ void operator()(int /*step*/) const {}
};

/// Adds a span's products of tiles of weights with tiles of rows. rows_of(i, t): the lane's operand
/// of the span's step i for tile t of rows. aside(i): is called once a step, between its reads and
/// its products.
template <class Weights, int tiles, int row_tiles, class RowsOf, class Aside>
__device__ __forceinline__ void multiply_span(const Weights (&weights)[tiles],
                                              const RowsOf& rows_of, const Aside& aside,
                                              float (&sums)[tiles][row_tiles][4]) {
  if constexpr (has_factors<Weights>) {
    constexpr std::uint32_t one = both(0x3F80);
    constexpr int part_steps = Weights::part_steps;
#pragma unroll
    for (int part = 0; part < Weights::steps / part_steps; ++part) {
      const int first = part * part_steps;
      uint4 operands[tiles][part_steps];
      PartFactors by[tiles];
      for (int k = 0; k < tiles; ++k) {
        for (int i = 0; i < part_steps; ++i)
          operands[k][i] = weights[k].operand(first + i);
        by[k] = weights[k].factors(part);
      }
      for (int i = 0; i < part_steps; ++i)
        aside(first + i);
      for (int t = 0; t < row_tiles; ++t) {
        uint2 rows[part_steps];
        float inputs[4] = {};
        for (int i = 0; i < part_steps; ++i) {
          rows[i] = rows_of(first + i, t);
          if (Weights::has_least)
            ptx::multiply_add(inputs, {one, one, one, one}, rows[i]);
        }
        for (int k = 0; k < tiles; ++k) {
          float products[4] = {};
          for (int i = 0; i < part_steps; ++i)
            ptx::multiply_add(products, operands[k][i], rows[i]);
          for (int j = 0; j < 4; ++j) {
            float& sum = sums[k][t][j];
            sum = fmaf(products[j], by[k].scale[j / 2], sum);
            if (Weights::has_least)
              sum = fmaf(inputs[j], by[k].least[j / 2], sum);
          }
        }
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < Weights::steps; ++i) {
      uint4 operands[tiles];
      for (int k = 0; k < tiles; ++k)
        operands[k] = weights[k].operand(i);
      uint2 rows[row_tiles];
      constexpr bool all_first = !std::is_same_v<Aside, Nothing>; // Which takes registers.
      for (int t = 0; all_first && t < row_tiles; ++t)
        rows[t] = rows_of(i, t);
      aside(i);
      for (int t = 0; t < row_tiles; ++t) {
        if (!all_first)
          rows[t] = rows_of(i, t);
        for (int k = 0; k < tiles; ++k)
          ptx::multiply_add(sums[k][t], operands[k], rows[t]);
      }
    }
  }
}

/// A span that a lane holds or has on its way.
template <class Weights, BlockShape shape>
struct Stage {
  typename Weights::Span weights[shape.tiles];
  uint2 rows[Weights::steps][shape.row_tiles][warp_lanes];
};

/// Returns the number of them. What few rows take is bound by what a multiprocessor has on its way:
/// as much as its blocks find room for (measured on an H200).
template <class Weights, BlockShape shape>
constexpr int stages_of() {
  constexpr bool plain = Weights::steps == 1;
  constexpr std::size_t of_block = 8 * sizeof(Stage<Weights, shape>);
  switch (shape.row_tiles) {
  case 1: return int((shape.deep ? shared_bytes_most : std::size_t(70) << 10) / of_block);
  case 2:
    if (plain)
      return shape.deep ? 12 : 8;
    return shape.tiles == 1 ? std::min(4, int(shared_bytes_most / of_block)) : 4;
  case 4: return plain ? 8 : 3;
  default: return plain ? 6 : 2;
  }
}

/// Returns the first span of 64 inputs of a chain, of 2^log2 chains of so many steps.
__device__ __forceinline__ int first_span_of(int chain, int log2, int steps) {
  return divide_up(steps, span_steps) * chain >> log2;
}

/// The chains of a weight, whose number is a power of two, and how many of them a warp has.
template <BlockShape shape>
struct Chains {
  int log2;
  int log2_each;

  __device__ static Chains of(const PackedLayout& layout) {
    const int log2 = __ffs(layout.chains()) - 1;
    return {log2, log2 - (__ffs(int(blockDim.x) / warp_lanes) - 1)};
  }
  __device__ int count() const { return 1 << log2; }
  __device__ int each() const { return shape.chains_each() == 1 ? 1 : 1 << log2_each; }
  /// Return the warp of a chain, and its number among the warp's.
  __device__ int warp(int chain) const {
    return shape.chains_each() == 1 ? chain : chain >> log2_each;
  }
  __device__ int own(int chain) const { return chain - warp(chain) * each(); }
};

/// A warp's shared memory.
template <class Weights, BlockShape shape>
union WarpShared {
  Stage<Weights, shape> ring[stages_of<Weights, shape>()];
  /// Of each of its chains; used once all is read.
  float sums[shape.chains_each()][tile_rows * shape.row_tiles][shape.tiles * tile_outputs];
};

/// The reads of one lane in a product, span by span along its warp's chains.
template <class Weights, BlockShape shape, class Rows>
class Feed {
  static constexpr int tiles = shape.tiles;
  static constexpr int row_tiles = shape.row_tiles;

public:
  using Stage = kernels::Stage<Weights, shape>;
  using Sums = float[tiles][row_tiles][4];

  /// tile: the block's first. first_row, end_row: the rows that the block multiplies, or more.
  __device__ Feed(Stage* ring, const PackedWeight& w, int tile, const std::uint16_t* rows,
                  const Rows& all, int first_row, int end_row, Chains<shape> chains)
      : ring_(ring), lane_(lane_index()), first_row_(first_row), end_row_(end_row),
        steps_(w.layout.padded_inputs() / step_inputs), chains_(chains),
        first_span_(chain_start(0)), last_span_(chain_start(chains.each())),
        tiles_(std::min(int(tiles), w.layout.tiles() - tile)),
        next_tile_(w.layout.tile_bytes * (Rows::gates ? std::size_t(w.layout.tiles() / 2) : 1)),
        weights_(w.data + std::size_t(tile) * w.layout.tile_bytes),
        rows_(reinterpret_cast<const uint2*>(rows)) {
    if constexpr (Rows::routed)
      for (int t = 0; t < row_tiles; ++t) {
        const int row = first_row_ + t * tile_rows + lane_ / 4;
        sources_[t] = row < end_row_ ? all.source(row) : 0;
      }
  }

  /// Return the first span of the warp's chains, and the one after the last.
  __device__ int first_span() const { return first_span_; }
  __device__ int last_span() const { return last_span_; }
  /// Returns the first span of one of the warp's chains, counted from 0.
  __device__ int chain_start(int own) const {
    const int chain = warp_index() * chains_.each() + own;
    return std::min(first_span_of(chain, chains_.log2, steps_) * (span_steps / Weights::steps),
                    divide_up(steps_, Weights::steps));
  }

  /// Fetches the weights of span `span` to place `place` of the ring; nothing after the last.
  __device__ void fetch_weights(int span, int place) {
    if (span >= last_span())
      return;
    const std::byte* const from = weights_ + std::size_t(span) * Weights::bytes;
    for (int k = 0; k < tiles; ++k)
      if (tiles == 1 || k < tiles_)
        Weights::fetch(ring_[place].weights[k], from + std::size_t(k) * next_tile_, lane_);
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

  __device__ void multiply(int place, Sums& sums) const {
    Weights weights[tiles];
    for (int k = 0; k < tiles; ++k)
      weights[k].load(ring_[place].weights[k], lane_);
    multiply_span(
        weights, [&](int i, int t) { return ring_[place].rows[i][t][lane_]; }, Nothing(), sums);
  }

private:
  Stage* ring_;
  int lane_;
  int first_row_;
  int end_row_;
  int steps_;
  Chains<shape> chains_;
  int first_span_;
  int last_span_;
  int tiles_;             ///< Tiles that there are.
  std::size_t next_tile_; ///< Bytes from one of the block's tiles to the next.
  const std::byte* weights_;
  const uint2* rows_;
  int sources_[Rows::routed ? row_tiles : 1]; ///< Rows of the input, if they are routed.
};

/// Computes a product. blockIdx: x: rows in groups of 8 row_tiles, y: outputs of an expert in
/// groups of 16 tiles, z: as Rows says. Groups of rows that read the same weights run side by side.
template <class Weights, int tiles, int row_tiles, bool deep, class Rows>
__global__ void __launch_bounds__(BlockShape{tiles, row_tiles}.warps_max() * warp_lanes)
    product(Tensor out, const std::uint16_t* staged, PackedWeight w, bool add, Rows rows) {
  constexpr BlockShape shape{tiles, row_tiles, deep};
  constexpr int stages = stages_of<Weights, shape>();
  constexpr int group = tile_rows * shape.row_tiles;
  constexpr int own_tiles = Rows::gates ? shape.tiles / 2 : shape.tiles;
  constexpr int columns = own_tiles * tile_outputs;
  auto* shared = ptx::shared_array<WarpShared<Weights, shape>>(int(blockDim.x) / warp_lanes);
  auto& own = shared[warp_index()];
  ptx::let_next_begin();
  if constexpr (Rows::routed) // The kernel ahead decides which weights are read.
    ptx::await_previous();
  const Part part = rows.part();
  const int first_row = part.first + int(blockIdx.x) * group;
  if (Rows::routed && first_row >= part.end)
    return;
  const int column = int(blockIdx.y) * columns;
  const int tile = rows.tile(part.expert, int(gridDim.y), int(blockIdx.y)) * own_tiles;
  if (Rows::routed && unsigned(tile) >= unsigned(w.layout.tiles()))
    return;
  using Reads = Feed<Weights, shape, Rows>;
  const auto chains = Chains<shape>::of(w.layout);
  Reads feed(own.ring, w, tile, staged, rows, first_row, part.end, chains);

  typename Reads::Sums sums[shape.chains_each()] = {};
  for (int ahead = 0; ahead < stages - 1; ++ahead)
    feed.fetch_weights(feed.first_span() + ahead, ahead);
  if constexpr (!Rows::routed)
    ptx::await_previous();
  for (int ahead = 0; ahead < stages - 1; ++ahead)
    feed.fetch_rows(feed.first_span() + ahead, ahead);
  ptx::commit_copies();
  ptx::wait_for_copies<0>(); // Waits for all of these; then a span is a group.
  int span = feed.first_span();
  int place = 0;
#pragma unroll
  for (int chain = 0; chain < shape.chains_each(); ++chain)
    for (const int end = chain < chains.each() ? feed.chain_start(chain + 1) : span; span < end;
         ++span) {
      ptx::wait_for_copies<stages - 2>();
      const int freed = place == 0 ? stages - 1 : place - 1; // Read in the last round.
      feed.fetch_weights(span + stages - 1, freed);
      feed.fetch_rows(span + stages - 1, freed);
      ptx::commit_copies();
      feed.multiply(place, sums[chain]);
      place = place + 1 == stages ? 0 : place + 1;
    }

  __syncthreads(); // Sums overwrite what other warps read.
  const int g = lane_index() / 4;
  const int t = lane_index() % 4;
  for (int chain = 0; chain < shape.chains_each(); ++chain)
    for (int k = 0; k < shape.tiles; ++k)
      for (int i = 0; i < shape.row_tiles; ++i)
        for (int j = 0; j < 4; ++j)
          own.sums[chain][i * tile_rows + 2 * t + j % 2][k * tile_outputs + g + j / 2 * 8] =
              sums[chain][k][i][j];
  __syncthreads();
  // Stores an output of the weight, which is one of the block's.
  const auto store_sum = [&](float& to, int row, int of_block, int output) {
    float sum = shared[0].sums[0][row][of_block];
    for (int chain = 1; chain < chains.count(); ++chain)
      sum += shared[chains.warp(chain)].sums[chains.own(chain)][row][of_block];
    store(to, sum, w.bias ? w.bias + output : nullptr, add);
  };
  for (int i = int(threadIdx.x); i < group * columns; i += int(blockDim.x)) {
    const int row = i / columns;
    const int output = tile * tile_outputs + i % columns;
    if (first_row + row >= part.end || output >= w.layout.outputs)
      continue;
    float& to = out.row(first_row + row)[column + i % columns];
    if constexpr (Rows::gates) {
      float gate = 0;
      float up = 0;
      store_sum(gate, row, i % columns, output);
      store_sum(up, row, i % columns + columns, output + out.cols);
      to = gated(gate, up, rows.gating);
      stage_number(rows.staged, out.cols, first_row + row, output, to);
    } else {
      store_sum(to, row, i % columns, output);
    }
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

} // namespace paceline::gpu::cuda::kernels
