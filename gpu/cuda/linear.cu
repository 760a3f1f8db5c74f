// Products with weights. A decode step is bound by reading weights, so each is read once for up to
// 64 rows, in the order of memory.
//
// bf16 and microscaling: weights are operand A of the matrix instruction, 16 outputs of it, rows of
// activations are operand B, 8 of them. A block makes 16 outputs; its warps take a contiguous part
// of the inputs each (the chains) and the sums are added in order at the end. Every lane prefetches
// into shared memory only what it will read itself, so that no lane waits for another, and begins
// with the weights before the kernel that makes the rows has ended.
// One kernel serves all numbers of rows and, except for how it reads them, all weights: a row's
// sums are the same instructions in the same order.
#include "base/bf16.hpp"
#include "gpu/cuda/weights.cuh"

namespace paceline::gpu::cuda::kernels {
namespace {

constexpr int product_warps_max = 8;

/// Stores the result of a product: (sum + what was there) + bias.
__device__ __forceinline__ void store(Tensor out, int row, int output, float sum, const float* bias,
                                      bool add) {
  float& to = out.row(row)[output];
  const float whole = add ? sum + to : sum;
  to = bias ? whole + bias[output] : whole;
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
template <class Weights, int row_tiles>
class Feed {
public:
  using Stage = typename ChainShared<Weights, row_tiles>::Stage;

  __device__ Feed(Stage* ring, const PackedWeight& w, int tile, const std::uint16_t* rows,
                  int first_row, int row_count)
      : ring_(ring), lane_(lane_index()), first_row_(first_row), row_count_(row_count),
        steps_(w.layout.padded_inputs() / step_inputs),
        begin_(steps_ * warp_index() / w.layout.chains()),
        end_(steps_ * (warp_index() + 1) / w.layout.chains()),
        weights_(w.data + std::size_t(tile) * w.layout.tile_bytes),
        rows_(reinterpret_cast<const uint2*>(rows)) {}

  /// Return the first span that has steps of the chain, and the one after the last.
  __device__ int first_span() const { return begin_ / Weights::steps; }
  __device__ int last_span() const { return (end_ + Weights::steps - 1) / Weights::steps; }

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
      const bool there = row + lane_ / 4 < row_count_;
      const std::size_t step =
          std::size_t(row / tile_rows) * std::size_t(steps_) + std::size_t(first_step);
      const uint2* from = rows_ + (there ? step * warp_lanes + std::size_t(lane_) : 0);
      for (int i = 0; i < Weights::steps; ++i)
        ptx::copy_async<8>(&ring_[place].rows[i][t][lane_], from + i * warp_lanes,
                           there && (i == 0 || first_step + i < steps_));
    }
  }

  __device__ void multiply(int span, int place, float (&sums)[row_tiles][4]) const {
    Weights weights;
    weights.load(ring_[place].weights, lane_);
#pragma unroll
    for (int i = 0; i < Weights::steps; ++i) {
      const auto step = unsigned(span * Weights::steps + i - begin_);
      if (Weights::steps > 1 && step >= unsigned(end_ - begin_))
        continue; // Another chain's step.
      const uint4 operand = weights.operand(i);
      for (int t = 0; t < row_tiles; ++t)
        ptx::multiply_add(sums[t], operand, ring_[place].rows[i][t][lane_]);
    }
  }

private:
  Stage* ring_;
  int lane_;
  int first_row_;
  int row_count_;
  int steps_;
  int begin_; ///< The chain's first step; `end_` is the one after its last.
  int end_;
  const std::byte* weights_;
  const uint2* rows_;
};

/// Computes a product. blockIdx: x: rows in groups of 8 row_tiles, y: tile of outputs. Groups of
/// rows that read the same weights run side by side.
template <class Weights, int row_tiles>
__global__ void __launch_bounds__(product_warps_max* warp_lanes)
    product(Tensor out, const std::uint16_t* staged, PackedWeight w, bool add) {
  const int chains = w.layout.chains();
  auto* shared = ptx::shared_array<ChainShared<Weights, row_tiles>>(chains);
  constexpr int stages = stages_of<Weights>(row_tiles);
  constexpr int group = tile_rows * row_tiles;
  const int chain = warp_index();
  const int first_row = int(blockIdx.x) * group;
  const int tile = int(blockIdx.y);
  Feed<Weights, row_tiles> feed(shared[chain].ring, w, tile, staged, first_row, out.rows);

  float sums[row_tiles][4] = {};
  ptx::let_next_begin();
  for (int ahead = 0; ahead < stages - 1; ++ahead)
    feed.fetch_weights(feed.first_span() + ahead, ahead);
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
    feed.multiply(span, place, sums);
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
    if (first_row + row >= out.rows || output >= w.layout.outputs)
      continue;
    float sum = shared[0].sums[row][i % tile_outputs];
    for (int c = 1; c < chains; ++c)
      sum += shared[c].sums[row][i % tile_outputs];
    store(out, first_row + row, output, sum, w.bias, add);
  }
}

template <class Weights, int row_tiles>
cudaError_t launch_tiles(const Queue& queue, Tensor out, StagedRows staged, const PackedWeight& w,
                         bool add) {
  const dim3 grid(unsigned(divide_up(out.rows, row_tiles * tile_rows)), unsigned(w.layout.tiles()));
  const int chains = w.layout.chains();
  return launch(queue, grid, chains * warp_lanes,
                std::size_t(chains) * sizeof(ChainShared<Weights, row_tiles>),
                product<Weights, row_tiles>, out, staged.data, w, add);
}

/// Takes as many rows at once as there are, up to 64, or as a block's shared memory has room for.
template <class Weights, int row_tiles = 8>
cudaError_t launch_product(const Queue& queue, Tensor out, StagedRows staged, const PackedWeight& w,
                           bool add) {
  if constexpr (row_tiles > 1) {
    const bool room = std::size_t(w.layout.chains()) * sizeof(ChainShared<Weights, row_tiles>) <=
                      shared_bytes_most;
    if (!room || out.rows <= tile_rows * row_tiles / 2)
      return launch_product<Weights, row_tiles / 2>(queue, out, staged, w, add);
  }
  return launch_tiles<Weights, row_tiles>(queue, out, staged, w, add);
}

// f32 and f16: products are exact, and each is added in f32. A warp makes one output; its lanes
// stride over the inputs.

constexpr int exact_rows = 8;
constexpr int exact_warps = 4;

/// 16 bytes of weights.
template <class Element>
struct alignas(sizeof(uint4)) Vector {
  static constexpr int width = int(sizeof(uint4) / sizeof(Element));
  Element elements[width];
};
__device__ __forceinline__ float exact(float value) {
  return value;
}
__device__ __forceinline__ float exact(base::f16 value) {
  return base::to_float(value);
}

/// Computes a product. blockIdx: x: outputs in groups of the block's warps, y: rows in groups of 8.
template <class Element>
__global__ void __launch_bounds__(exact_warps* warp_lanes)
    exact_product(Tensor out, Tensor in, PackedWeight w, bool add) {
  ptx::await_previous();
  constexpr int width = Vector<Element>::width;
  const int output = int(blockIdx.x) * exact_warps + warp_index();
  const int first_row = int(blockIdx.y) * exact_rows;
  if (output >= w.layout.outputs)
    return;
  const std::byte* tile = w.data + std::size_t(output / tile_outputs) * w.layout.tile_bytes;
  const auto* weights =
      reinterpret_cast<const Element*>(tile) + weight_element(w.layout, output % tile_outputs, 0);
  float sums[exact_rows] = {};
  for (int first = lane_index() * width; first < w.layout.inputs; first += warp_lanes * width) {
    const auto vector = *reinterpret_cast<const Vector<Element>*>(weights + first);
    for (int i = 0; i < width; ++i)
      for (int r = 0; r < exact_rows; ++r)
        if (first + i < w.layout.inputs && first_row + r < in.rows)
          sums[r] = fmaf(in.row(first_row + r)[first + i], exact(vector.elements[i]), sums[r]);
  }
  for (int r = 0; r < exact_rows && first_row + r < out.rows; ++r) {
    const float sum = warp_reduce(sums[r], Add());
    if (lane_index() == 0)
      store(out, first_row + r, output, sum, w.bias, add);
  }
}

} // namespace

cudaError_t linear(const Queue& queue, Tensor out, Tensor in, StagedRows staged,
                   const PackedWeight& w, bool add) {
  const dim3 exact_grid(unsigned(divide_up(w.layout.outputs, exact_warps)),
                        unsigned(divide_up(out.rows, exact_rows)));
  switch (w.layout.format) {
  case WeightFormat::f32:
    return launch(queue, exact_grid, exact_warps * warp_lanes, 0, exact_product<float>, out, in, w,
                  add);
  case WeightFormat::f16:
    return launch(queue, exact_grid, exact_warps * warp_lanes, 0, exact_product<base::f16>, out, in,
                  w, add);
  default:
    return with_weights(w.layout.format, [&](auto weights) {
      return launch_product<decltype(weights)>(queue, out, staged, w, add);
    });
  }
}

} // namespace paceline::gpu::cuda::kernels
