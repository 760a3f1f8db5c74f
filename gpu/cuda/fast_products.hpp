// Products of many rows by cuBLASLt, for prompts on the fast path.
#pragma once

#include "gpu/cuda/context.hpp"
#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/version.hpp"

#include <memory>
#include <span>

namespace paceline::gpu::cuda {

/// One algorithm for each shape of weight, with which a row has the same bits in every product of
/// whole chunks (fast_chunk rows) up to the prepared number of rows: all of these were tested. All
/// members may be called from any thread.
class FastProducts {
public:
  virtual ~FastProducts() = default;

  /// Returns the bytes of GPU memory that a lane needs for its products.
  virtual std::size_t scratch_bytes() const = 0;
  /// Implements Operations::linear_fast with a weight or a part of one, whose columns of the result
  /// `out` is. Weights are packed for our own kernels, so each is unpacked into the scratch, which
  /// is worth while for many rows. Throws.
  virtual void multiply(cudaStream_t stream, Tensor out, Tensor in, const kernels::PackedWeight& w,
                        bool add, std::byte* scratch) const = 0;
};

using FastProductsRef = std::shared_ptr<const FastProducts>;

/// A lane's products and its scratch for them; empty if nothing was prepared.
struct FastPath {
  FastProductsRef products;
  std::shared_ptr<Buffer> scratch;
};

/// Chooses algorithms by tests. rows: the most of one product. Errors: cuBLASLt is missing, a
/// weight is f32 or f16, or no algorithm passes.
Result<FastProductsRef>
prepare_fast_products(const std::shared_ptr<Context>& context,
                      std::span<const std::shared_ptr<const Weight>> weights, int rows);

/// Returns the version of cuBLASLt, if it loads.
Result<Version> cublas_version();

} // namespace paceline::gpu::cuda
