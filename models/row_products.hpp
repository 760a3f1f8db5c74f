// What a transformer's passes use to multiply rows (transformer_shard.hpp).
#pragma once

#include "gpu/operations.hpp"
#include "models/transformer_weights.hpp"

namespace paceline::models {

/// Returns null if there is no such norm.
inline const float* floats(const Norm& norm) {
  return norm ? reinterpret_cast<const float*>(norm->data()) : nullptr;
}

/// Computes out (+)= in * w^T. fast: the number of rows, the last ones, that take the fast path.
inline void multiply(gpu::Operations& operations, gpu::Tensor out, gpu::Tensor in,
                     const gpu::Weight& w, int fast, bool add = false) {
  const int exact = in.rows - fast;
  if (fast > 0)
    operations.linear_fast(out.slice(exact, fast), in.slice(exact, fast), w, add);
  if (exact > 0 && add)
    operations.linear_add(out.slice(0, exact), in.slice(0, exact), w);
  else if (exact > 0)
    operations.linear(out.slice(0, exact), in.slice(0, exact), w);
}

/// Computes what gates make of in * w^T. made: [rows, w's outputs], for the product.
inline void multiply_and_gate(gpu::Operations& operations, gpu::Tensor out, gpu::Tensor made,
                              gpu::Tensor in, const gpu::Weight& w, const gpu::Gating& gating,
                              int fast) {
  if (fast == 0)
    return operations.linear_gate(out, made, in, w, gating);
  multiply(operations, made, in, w, fast);
  operations.gate(out, made, gating);
}

} // namespace paceline::models
