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

} // namespace paceline::models
