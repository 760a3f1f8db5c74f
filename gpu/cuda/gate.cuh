// Activations of feed-forwards, and their gates.
#pragma once

#include "gpu/operations.hpp"

#include <cmath>
#include <cuda_runtime.h>

namespace paceline::gpu::cuda::kernels {

/// Returns `x`, at most `most`; NaN stays NaN.
__device__ inline float at_most(float x, float most) {
  return x > most ? most : x;
}

/// Returns activation(x), not of clamped_silu.
__device__ inline float activated(float x, Activation activation) {
  if (activation == Activation::silu)
    return x / (1 + expf(-x));
  if (activation == Activation::relu)
    return x < 0 ? 0 : x;
  if (activation == Activation::relu_squared)
    return x < 0 ? 0 : x * x;
  if (activation == Activation::gelu)
    return x / 2 * erfcf(-0.7071067812f * x); // sqrt(1 / 2)
  constexpr float root = 0.7978845608f;       // sqrt(2 / pi)
  const float y = root * (x + 0.044715f * x * x * x);
  return x / (1 + expf(-2 * y)); // (1 + tanh(y)) / 2 is sigmoid(2 y).
}

/// Returns what a gate `x` makes of `up`.
__device__ inline float gated(float x, float up, const Gating& gating) {
  if (gating.activation == Activation::clamped_silu) {
    const float gate = at_most(x, gating.limit);
    const float value = -at_most(-at_most(up, gating.limit), gating.limit);
    return gate / (1 + expf(-gating.alpha * gate)) * (value + 1);
  }
  return activated(x, gating.activation) * up;
}

} // namespace paceline::gpu::cuda::kernels
