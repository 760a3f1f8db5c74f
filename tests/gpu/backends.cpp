#include "tests/gpu/backends.hpp"

#include "gpu/cpu/kernels.hpp"
#include "tests/gpu/support.hpp"

#include <cstdlib>

namespace paceline::gpu::testing {
namespace {

/// A device whose buffers are memory that the host sees, too.
class SharedDevice final : public Device {
public:
  explicit SharedDevice(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  const std::string& name() const override { return device_->name(); }
  const std::string& kernel() const override { return device_->kernel(); }
  DeviceMemory memory() const override { return device_->memory(); }
  bool on_host() const override { return device_->on_host(); }
  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) override {
    return device_->allocate_shared(bytes);
  }
  Result<std::shared_ptr<const Weight>> pack(std::span<const HostMatrix> parts) override {
    return device_->pack(parts);
  }
  Result<void> prepare_fast_products(std::span<const std::shared_ptr<const Weight>> weights,
                                     int rows) override {
    return device_->prepare_fast_products(weights, rows);
  }
  Result<std::shared_ptr<Buffer>> upload(std::span<const float> values) override {
    return device_->upload(values);
  }
  Result<std::unique_ptr<Lane>> open_lane(std::string role) override {
    return device_->open_lane(std::move(role));
  }

private:
  std::shared_ptr<Device> device_;
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
