// A lane that is a stream, with its own thread for launches.
#pragma once

#include "gpu/cuda/context.hpp"
#include "gpu/cuda/fast_products.hpp"
#include "gpu/cuda/partition.hpp"
#include "gpu/thread_lane.hpp"

#include <memory>
#include <string>

namespace paceline::gpu::cuda {

/// Opens a lane. The draft's stream has the highest priority, every other the lowest: a draft's
/// kernels are small and many, and each would queue after one of the target's. A sticky error of
/// the GPU retires the step, and every later one, as failed. partition: null: the lane works on all
/// multiprocessors. products: null: linear_fast is refused.
Result<std::unique_ptr<Lane>> open_lane(const std::shared_ptr<Context>& context,
                                        std::shared_ptr<const Partition> partition,
                                        const std::string& role, FastProductsRef products,
                                        ThreadLaneOptions options);

// The functions below also serve lanes of several GPUs.

/// Prepares the lane's own thread; called on it first.
void prepare_lane_thread(const std::string& name);
/// Returns the priority of a stream for `role` on the current device. Throws CudaError.
int priority_of(const std::string& role);
/// Returns a lane's part of `products`, which may be null. Errors: the GPU was lost or has no
/// memory.
Result<FastPath> open_fast_path(Context& context, FastProductsRef products);

} // namespace paceline::gpu::cuda
