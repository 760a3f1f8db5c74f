// A lane whose pieces take simulated time.
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
  const cpu::Kernels* kernels = nullptr;
  std::shared_ptr<base::Timekeeper> time;
  std::shared_ptr<base::Trace> trace; ///< May be null.
  std::vector<Profile> beside{};      ///< A group's lane: the other devices' profiles.
  /// Whether a pass takes the times of all devices, which work one after the other; else it takes
  /// the longest. Either way it crosses to each further device (Profile::hop).
  bool in_turn = false;
};

/// Opens a lane. A piece that is prepared at time t runs and completes at t + latency, so its
/// result appears when the device would have it. A waiting step is asked again every
/// limits::sim_waiting_pause, and less often when it has waited for long.
std::unique_ptr<Lane> open_lane(LaneOptions options);

} // namespace paceline::gpu::sim
