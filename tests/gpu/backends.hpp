// What test bodies run over: the families of CPU kernels, or a GPU. A program each
// (CMakeLists.txt).
#pragma once

#include "gpu/device.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::gpu::testing {

std::vector<std::string> kernel_names();
/// Returns the portable ones of these with fused multiply-add, which agree in every bit.
std::vector<std::string> fused_kernel_names();
/// Returns what this program is about: `gpu` has all of kernel_names(), `cuda` an emulated GPU,
/// `cuda_device` the machine's.
std::vector<std::string> backends();
bool is_cuda(const std::string& backend);

/// A CPU with a chosen kernel family and team, or a GPU whose memory is the host's, so that a body
/// may look at it.
std::shared_ptr<Device> open_backend(const std::string& backend, int threads);

} // namespace paceline::gpu::testing
