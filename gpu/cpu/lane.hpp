// A lane whose threads are a team, pinned to cores.
#pragma once

#include "base/clock.hpp"
#include "base/trace.hpp"
#include "gpu/cpu/kernels.hpp"
#include "gpu/lane.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::gpu::cpu {

struct LaneOptions {
  std::string name;
  std::vector<int> cores;         ///< One thread each; the first is rank 0 and calls the steps.
  std::vector<int> shard_threads; ///< Group's lane: threads of each shard, in order of the cores.
  const Kernels* kernels = nullptr;
  std::shared_ptr<base::Timekeeper> time;
  std::shared_ptr<base::Trace> trace; ///< May be null.
};

Result<std::unique_ptr<Lane>> open_lane(LaneOptions options);

} // namespace paceline::gpu::cpu
