// A lane of several GPUs: each has a stream, and one thread launches on all of them.
#pragma once

#include "gpu/cuda/context.hpp"
#include "gpu/cuda/fast_products.hpp"
#include "gpu/cuda/nccl.hpp"
#include "gpu/thread_lane.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::gpu::cuda {

struct GroupMember {
  std::shared_ptr<Context> context;
  FastProductsRef products; ///< Null: linear_fast is refused.
};

/// Opens a lane. members: in the order of the shards. A step in shards runs on all of them, any
/// other on the first. Pieces are launched call by call, without graphs, and one at a time. If one
/// GPU fails, the step fails once none of its work runs on the others any more. nccl: none: GPUs
/// copy from each other.
Result<std::unique_ptr<Lane>> open_group_lane(std::vector<GroupMember> members,
                                              const std::string& role,
                                              const std::optional<Nccl>& nccl,
                                              ThreadLaneOptions options);

} // namespace paceline::gpu::cuda
