// NVIDIA GPUs as devices. Where CUDA was not built, absent.cpp answers in their place.
#pragma once

#include "gpu/device.hpp"

namespace paceline::gpu::cuda {

/// No driver, one that is too old, no such GPU, or one that this build has no kernels for: an error
/// that says so.
Result<std::shared_ptr<Device>> open_device(const DeviceName& name, const DeviceOptions& options);

} // namespace paceline::gpu::cuda
