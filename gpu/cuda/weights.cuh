// Readers of weights that are multiplied as bf16. They read spans, in the order of memory, into
// operands of the matrix instruction.
#pragma once

#include "gpu/cuda/block.cuh"
#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/mx.cuh"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu::cuda::kernels {

/// Weights of bf16, which are stored as operands: a span is a step.
class PlainWeights {
public:
  static constexpr int steps = 1; ///< Steps of a span.
  static constexpr std::size_t bytes = warp_lanes * sizeof(uint4);

  struct Span {
    uint4 operands[warp_lanes];
  };

  static __device__ void fetch(Span& to, const std::byte* span, int lane) {
    ptx::copy_async<16>(&to.operands[lane], reinterpret_cast<const uint4*>(span) + lane);
  }
  __device__ void load(const Span& span, int lane) { operand_ = span.operands[lane]; }
  /// Loads from the packed weight.
  __device__ void load(const std::byte* span, int lane) {
    operand_ = reinterpret_cast<const uint4*>(span)[lane];
  }
  __device__ uint4 operand(int) const { return operand_; }

private:
  uint4 operand_;
};

/// Calls f(weights) with the class that reads them. format: not f32 or f16.
template <class F>
auto with_weights(WeightFormat format, const F& f) {
  return format == WeightFormat::bf16 ? f(PlainWeights()) : with_mx_weights(format, f);
}

/// Returns a lane's operand of a step.
template <class Weights>
__device__ uint4 operand_of(const PackedWeight& w, int tile, int step, int lane) {
  Weights weights;
  weights.load(w.data + std::size_t(tile) * w.layout.tile_bytes +
                   std::size_t(step / Weights::steps) * Weights::bytes,
               lane);
  return weights.operand(step % Weights::steps);
}

} // namespace paceline::gpu::cuda::kernels
