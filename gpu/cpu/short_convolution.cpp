// Short convolutions on a team of CPU threads. A rank has some columns of all rows.
#include "gpu/cpu/operations.hpp"
#include "gpu/cpu/run_rows.hpp"

#include <algorithm>
#include <cassert>

namespace paceline::gpu::cpu {
namespace {

constexpr int columns_together = 16; // a cache line

} // namespace

void CpuOperations::short_convolution(Tensor out, Tensor in, const ShortConvolution& convolution,
                                      std::span<const StateRun> runs, const StateLayer& states) {
  const int channels = convolution.channels;
  assert(out.cols == channels && in.cols == convolution.row());
  const Share lines = share((channels + columns_together - 1) / columns_together);
  const int first = lines.begin * columns_together;
  const int count = std::max(0, std::min(lines.end * columns_together, channels) - first);
  const Tensor products = in.columns(2 * channels, channels);
  for (const StateRun& run : runs) {
    const RunRows rows(states, run, products, convolution.taps);
    for (int p = run.position; p < run.end(); ++p) {
      const float* const gates = in.row(rows.row_of(p)) + first;
      float* const product = products.row(rows.row_of(p)) + first;
      float* const sums = out.row(rows.row_of(p)) + first;
      for (int i = 0; i < count; ++i)
        product[i] *= gates[i];
      if (convolution.bias)
        std::copy_n(convolution.bias + first, count, sums);
      else
        std::fill_n(sums, count, 0.0f);
      rows.add_convolution(sums, p, convolution.kernel, first, count);
      for (int i = 0; i < count; ++i)
        sums[i] *= gates[channels + i];
    }
    rows.keep(first, first + count);
  }
  barrier();
}

} // namespace paceline::gpu::cpu
