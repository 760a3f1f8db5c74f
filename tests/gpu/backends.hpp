// What a test body runs over: the families of CPU kernels, and a GPU where there is one.
#pragma once

#include "gpu/device.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::gpu::testing {

std::vector<std::string> kernel_names();
/// kernel_names(), and "cuda:0". Where no GPU is to be had, the test that asks is counted, and the
/// program says at its end how many were.
std::vector<std::string> backends();
bool is_cuda(const std::string& backend);

/// A CPU with a chosen kernel family and team, or a GPU whose memory is the host's, so that a body
/// may look at it.
std::shared_ptr<Device> open_backend(const std::string& backend, int threads);

} // namespace paceline::gpu::testing
