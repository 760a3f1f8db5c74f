// Short convolutions. A thread has one channel of one row.
#include "gpu/cuda/block.cuh"
#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/state_rows.cuh"

#include <algorithm>

namespace paceline::gpu::cuda::kernels {
namespace {

constexpr int threads = 256;

/// Returns what a channel of a row is multiplied to, before its convolution.
__device__ float product(Tensor in, const ShortConvolution& convolution, const StateRun& run,
                         const States& states, int position, int channel) {
  if (position < run.position)
    return row_before(states, run, position)[channel];
  const float* const row = in.row(run.first_row + position - run.position);
  return row[channel] * row[2 * convolution.channels + channel];
}

__global__ void convolve(Tensor out, Tensor in, ShortConvolution convolution, const StateRun* runs,
                         States states) {
  ptx::await_previous();
  const StateRun run = runs[blockIdx.z];
  const int position = run.position + int(blockIdx.y);
  const int channel = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (position >= run.end() || channel >= convolution.channels)
    return;
  float sum = convolution.bias ? convolution.bias[channel] : 0;
  for (int tap = 0; tap < convolution.taps; ++tap)
    if (const int from = position - convolution.taps + 1 + tap; from >= 0)
      sum = fmaf(convolution.kernel[tap * convolution.channels + channel],
                 product(in, convolution, run, states, from, channel), sum);
  const int row = run.first_row + int(blockIdx.y);
  out.row(row)[channel] = in.row(row)[convolution.channels + channel] * sum;
}

/// Keeps rows of the runs, once all have read what they replace.
__global__ void keep_products(Tensor in, ShortConvolution convolution, const StateRun* runs,
                              States states, bool snapshots) {
  ptx::await_previous();
  const StateRun run = runs[blockIdx.z];
  const Keeping kept = keeping(run, convolution.taps, snapshots);
  const int position = kept.first + int(blockIdx.y);
  const int channel = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (position < kept.end && channel < convolution.channels)
    states.of(kept.state)[states.layout.row_at(position) + std::size_t(channel)] =
        product(in, convolution, run, states, position, channel);
}

} // namespace

cudaError_t short_convolution(const Queue& queue, Tensor out, Tensor in,
                              const ShortConvolution& convolution, const StateRun* runs, int count,
                              int most, const States& states, bool snapshots) {
  const auto blocks = unsigned(divide_up(convolution.channels, threads));
  if (const cudaError_t refused = launch(queue, dim3(blocks, unsigned(most), unsigned(count)),
                                         threads, 0, convolve, out, in, convolution, runs, states))
    return refused;
  const auto keep = [&](bool of_snapshots) {
    const auto rows = unsigned(of_snapshots ? convolution.taps : states.layout.kept);
    return launch(queue, dim3(blocks, rows, unsigned(count)), threads, 0, keep_products, in,
                  convolution, runs, states, of_snapshots);
  };
  if (const cudaError_t refused = snapshots ? keep(true) : cudaSuccess)
    return refused;
  return keep(false);
}

} // namespace paceline::gpu::cuda::kernels
