#include "tests/gpu/backends.hpp"

#include "gpu/cpu/kernels.hpp"
#include "tests/gpu/support.hpp"
#include "tests/support/forwarding_device.hpp"

#include <cstdlib>

namespace paceline::gpu::testing {
namespace {

/// A device whose buffers are memory that the host sees, too.
class SharedDevice final : public paceline::testing::ForwardingDevice {
public:
  using ForwardingDevice::ForwardingDevice;
  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) override {
    return device_->allocate_shared(bytes);
  }
};

} // namespace

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const cpu::Kernels* kernels : cpu::available_kernels())
    names.push_back(kernels->name());
  return names;
}

std::vector<std::string> fused_kernel_names() {
  std::vector<std::string> names = kernel_names();
  std::erase_if(names, [](const std::string& name) {
    return name != "highway-avx2" && name != "highway-avx3" && name != "highway-neon";
  });
  return names;
}

bool is_cuda(const std::string& backend) {
  return backend.starts_with("cuda");
}

std::shared_ptr<Device> open_backend(const std::string& backend, int threads) {
  if (is_cuda(backend))
    return std::make_shared<SharedDevice>(
        open_device(backend, {0, std::make_shared<RealTime>(), nullptr}).value());
  setenv("PACELINE_CPU", backend.c_str(), 1);
  auto device = open_device("cpu", {threads, std::make_shared<RealTime>(), nullptr}).value();
  unsetenv("PACELINE_CPU");
  return device;
}

} // namespace paceline::gpu::testing
