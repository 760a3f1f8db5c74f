// Some of a GPU's multiprocessors for a lane of its own ("green contexts" of the CUDA Driver API,
// from 13.0 on).
#pragma once

#include "gpu/cuda/context.hpp"
#include "gpu/cuda/handle.hpp"

#include <memory>
#include <mutex>

struct CUgreenCtx_st;

namespace paceline::gpu::cuda {

/// Multiprocessors on which the kernels of some streams run, and no others. All members may be
/// called from any thread.
class Partition {
public:
  /// Errors: the driver or the build cannot divide a GPU, or this one cannot be divided there.
  static Result<std::shared_ptr<const Partition>> of(const Context& context,
                                                     Multiprocessors wanted);
  ~Partition();
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  Multiprocessors multiprocessors() const { return multiprocessors_; }
  /// Makes a stream, which must go before this does. Throws CudaError.
  Stream make_stream(int priority) const;

private:
  Partition(CUgreenCtx_st* context, Multiprocessors multiprocessors)
      : context_(context), multiprocessors_(multiprocessors) {}

  mutable std::mutex mutex_; ///< The driver takes one call with a green context at a time.
  CUgreenCtx_st* context_;
  Multiprocessors multiprocessors_;
};

} // namespace paceline::gpu::cuda
