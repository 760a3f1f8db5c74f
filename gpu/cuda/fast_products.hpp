// Products of many rows by cuBLASLt, for prompts that are read by the fast path.
#pragma once

#include "gpu/cuda/context.hpp"
#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/version.hpp"

#include <memory>
#include <span>

namespace paceline::gpu::cuda {

/// One algorithm for each shape of weight, with which a row has the same bits in every product of
/// whole chunks (fast_chunk rows) up to the most that was asked for: all of them were tried.
/// Threads: all members from any.
class FastProducts {
public:
  virtual ~FastProducts() = default;

  /// Memory of the GPU that a lane needs for its products.
  virtual std::size_t scratch_bytes() const = 0;
  /// Operations::linear_fast. Weights are packed for our own kernels: each is unpacked into the
  /// scratch, which many rows make up for. Throws.
  virtual void multiply(cudaStream_t stream, Tensor out, Tensor in, const kernels::PackedWeight& w,
                        bool add, std::byte* scratch) const = 0;
};

using FastProductsRef = std::shared_ptr<const FastProducts>;

/// A lane's share of it; empty where nothing was prepared.
struct FastPath {
  FastProductsRef products;
  std::shared_ptr<Buffer> scratch;
};

/// rows: of one product at most. Errors: cuBLASLt is missing, a weight is not of bf16, or no
/// algorithm passes.
Result<FastProductsRef>
prepare_fast_products(const std::shared_ptr<Context>& context,
                      std::span<const std::shared_ptr<const Weight>> weights, int rows);

/// Of cuBLASLt, where it loads.
Result<Version> cublas_version();

} // namespace paceline::gpu::cuda
