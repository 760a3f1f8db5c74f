// Replaces the back end in builds without CUDA.
#include "gpu/cuda/device.hpp"
#include "gpu/cuda/survey.hpp"
#include "gpu/cuda/yardstick.hpp"

#include <fmt/format.h>

namespace paceline::gpu::cuda {
namespace {

Error not_built(const std::string& device) {
  return {
      ErrorCode::unsupported, fmt::format("this build has no CUDA, so there is no {}", device),
      "use EngineOptions::devices = cpu, or build where CUDA's nvcc 12 or 13 is (docs/cuda.md)"};
}

} // namespace

Result<std::shared_ptr<Device>> open_device(const DeviceName& name, const DeviceOptions&) {
  return tl::unexpected(not_built(fmt::format("cuda:{}", name.index)));
}

Result<std::vector<ProductTimes>> time_products(const std::string& device,
                                                std::span<const std::shared_ptr<const Weight>>,
                                                std::span<const int>) {
  return tl::unexpected(not_built(device));
}

Survey survey() {
  Survey none;
  none.unusable = not_built("GPU to use");
  return none;
}

} // namespace paceline::gpu::cuda
