// A lane that is a stream, with a thread of its own for launches.
#pragma once

#include "gpu/cuda/context.hpp"
#include "gpu/cuda/fast_products.hpp"
#include "gpu/thread_lane.hpp"

#include <memory>
#include <string>

namespace paceline::gpu::cuda {

/// The draft's stream has the highest priority, every other the lowest: a draft's kernels are small
/// and many, and would stand in line behind each of the target's. An error of the GPU that stays
/// retires the step, and every later one, as failed. products: null: linear_fast is refused.
Result<std::unique_ptr<Lane>> open_lane(const std::shared_ptr<Context>& context,
                                        const std::string& role, FastProductsRef products,
                                        ThreadLaneOptions options);

// What lanes of several GPUs need, too.

/// On the lane's own thread, first.
void prepare_lane_thread(const std::string& name);
/// Of a stream for `role` on the current device. Throws CudaError.
int priority_of(const std::string& role);
/// A lane's share of `products`, which may be null. Errors: the GPU was lost, or has no memory.
Result<FastPath> open_fast_path(Context& context, FastProductsRef products);

} // namespace paceline::gpu::cuda
