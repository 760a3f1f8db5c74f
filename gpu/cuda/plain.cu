// Conversion of weights and rows to plain matrices, for cuBLASLt, each a pass over memory.
#include "base/bf16.hpp"
#include "gpu/cuda/weights.cuh"

namespace paceline::gpu::cuda::kernels {
namespace {

constexpr int pass_threads = 256;

/// Unpacks tiles; each thread takes one lane's operand of a step (described at ptx::multiply_add).
/// blockIdx.y: the tile.
template <class Weights>
__global__ void unpack_tiles(std::uint32_t* out, PackedWeight w) {
  ptx::await_previous();
  const int piece = int(blockIdx.x * blockDim.x + threadIdx.x);
  const int inputs = w.layout.padded_inputs();
  const int step = piece / warp_lanes;
  if (step * step_inputs >= inputs)
    return;
  const int tile = int(blockIdx.y);
  const OperandNumbers held = numbers_of<Weights>(w, tile, step, piece % warp_lanes);
  const int g = piece % warp_lanes / 4;
  const int t = piece % 4;
  const auto row = [&](int output) { // Counts pairs of inputs.
    return out + std::size_t(tile * tile_outputs + output) * std::size_t(inputs / 2) +
           std::size_t(step * step_inputs / 2);
  };
  const auto pair = [&](int i) {
    return ptx::round_pair(held.numbers[2 * i], held.numbers[2 * i + 1]);
  };
  row(g)[t] = pair(0);
  row(g + 8)[t] = pair(1);
  row(g)[t + 4] = pair(2);
  row(g + 8)[t + 4] = pair(3);
}

/// Rounds rows; the grid's threads cover columns in x and rows in y.
__global__ void round_all(std::uint16_t* out, Tensor in) {
  ptx::await_previous();
  const int column = int(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = int(blockIdx.y);
  const int cols = plain_cols(in.cols);
  if (column < cols)
    out[std::size_t(row) * std::size_t(cols) + std::size_t(column)] =
        base::to_bf16(column < in.cols ? in.row(row)[column] : 0.0f).bits;
}

__global__ void compare_all(std::int32_t* differ, Tensor a, Tensor b) {
  ptx::await_previous();
  const int column = int(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = int(blockIdx.y);
  if (column < a.cols && std::bit_cast<std::uint32_t>(a.row(row)[column]) !=
                             std::bit_cast<std::uint32_t>(b.row(row)[column]))
    *differ = 1; // All writers write the same.
}

dim3 grid_over(int cols, int rows) {
  return {unsigned(divide_up(cols, pass_threads)), unsigned(rows), 1};
}

} // namespace

cudaError_t unpack(const Queue& queue, std::byte* out, const PackedWeight& w) {
  const int pieces = w.layout.padded_inputs() / step_inputs * warp_lanes;
  return with_weights(w.layout.format, [&](auto weights) {
    return launch(queue, grid_over(pieces, w.layout.tiles()), pass_threads, 0,
                  unpack_tiles<decltype(weights)>, reinterpret_cast<std::uint32_t*>(out), w);
  });
}

cudaError_t round_rows(const Queue& queue, std::byte* out, Tensor in) {
  return launch(queue, grid_over(plain_cols(in.cols), in.rows), pass_threads, 0, round_all,
                reinterpret_cast<std::uint16_t*>(out), in);
}

cudaError_t compare(const Queue& queue, std::int32_t* differ, Tensor a, Tensor b) {
  return launch(queue, grid_over(a.cols, a.rows), pass_threads, 0, compare_all, differ, a, b);
}

} // namespace paceline::gpu::cuda::kernels
