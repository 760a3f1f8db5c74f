// NVIDIA GPUs as devices. In builds without CUDA, absent.cpp defines the functions.
#pragma once

#include "gpu/device.hpp"

namespace paceline::gpu::cuda {

/// Opens a GPU. Errors: there is no driver, it is too old, there is no such GPU, or this build has
/// no kernels for it.
Result<std::shared_ptr<Device>> open_device(const DeviceName& name, const DeviceOptions& options);

} // namespace paceline::gpu::cuda
