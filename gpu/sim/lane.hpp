// A lane whose time is charged.
#pragma once

#include "base/clock.hpp"
#include "base/trace.hpp"
#include "gpu/cpu/kernels.hpp"
#include "gpu/lane.hpp"
#include "gpu/sim/profile.hpp"

#include <memory>
#include <string>

namespace paceline::gpu::sim {

struct LaneOptions {
  std::string name;
  Profile profile;
  std::vector<Profile>
      beside; ///< Of a group's lane: of the other shards; a piece takes the longest.
  const cpu::Kernels* kernels = nullptr;
  std::shared_ptr<base::Timekeeper> time;
  std::shared_ptr<base::Trace> trace; ///< May be null.
};

/// A piece that is prepared at time t runs and completes at t + latency: what it reads is bound
/// when the device would begin, and its result appears when the device would have it. A waiting
/// step is asked again every limits::sim_waiting_pause, and less often when it has waited for long.
std::unique_ptr<Lane> open_lane(LaneOptions options);

} // namespace paceline::gpu::sim
