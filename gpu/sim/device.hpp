// A device that computes on the host and charges the time of another machine, by a clock that may
// be virtual. It has no threads of its own: everything happens in the Timekeeper's callbacks.
#pragma once

#include "gpu/device.hpp"
#include "gpu/sim/profile.hpp"

namespace paceline::gpu::sim {

Result<std::shared_ptr<Device>> open_device(const DeviceName& name, const DeviceOptions& options);

} // namespace paceline::gpu::sim
