// Readers of weights that are multiplied as bf16. They read spans, in the order of memory, into
// operands of the matrix instruction.
#pragma once

#include "base/bf16.hpp"
#include "gpu/cuda/block.cuh"
#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/mx.cuh"
#include "gpu/cuda/scaled.cuh"

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

  /// wanted: the step is one of the weight's, else it is zeros.
  static __device__ void fetch(Span& to, const std::byte* span, int lane, bool wanted = true) {
    ptx::copy_async<16>(&to.operands[lane], reinterpret_cast<const uint4*>(span) + lane, wanted);
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
  if (has_scaled_codes(format))
    return with_scaled_weights(format, f);
  return format == WeightFormat::bf16 ? f(PlainWeights()) : with_mx_weights(format, f);
}

/// Whether the products of a part are multiplied by factors of its own.
template <class Weights>
inline constexpr bool has_factors = requires {
  Weights::part_steps;
};

/// The eight weights of a lane's operand, in the order of its registers.
struct OperandNumbers {
  float numbers[8];
};
/// Returns a lane's weights of a step.
template <class Weights>
__device__ OperandNumbers numbers_of(const PackedWeight& w, int tile, int step, int lane) {
  Weights weights;
  weights.load(w.data + std::size_t(tile) * w.layout.tile_bytes +
                   std::size_t(step / Weights::steps) * Weights::bytes,
               lane);
  const uint4 operand = weights.operand(step % Weights::steps);
  const std::uint32_t pairs[] = {operand.x, operand.y, operand.z, operand.w};
  OperandNumbers out;
  for (int i = 0; i < 8; ++i) {
    float& number = out.numbers[i];
    number = base::to_float(base::bf16{std::uint16_t(pairs[i / 2] >> (i % 2 * 16))});
    if constexpr (has_factors<Weights>) {
      const PartFactors by = weights.factors(step % Weights::steps / Weights::part_steps);
      number *= by.scale[i / 2 % 2];
      if (Weights::has_least)
        number += by.least[i / 2 % 2];
    }
  }
  return out;
}

} // namespace paceline::gpu::cuda::kernels
