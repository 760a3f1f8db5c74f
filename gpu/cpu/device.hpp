// The CPU as a device.
#pragma once

#include "gpu/device.hpp"

namespace paceline::gpu::cpu {

Result<std::shared_ptr<Device>> open_device(const DeviceName& name, const DeviceOptions& options);

} // namespace paceline::gpu::cpu
