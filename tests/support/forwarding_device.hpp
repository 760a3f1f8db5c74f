// A device that is another one, but for what tests change.
#pragma once

#include "gpu/device.hpp"

#include <memory>
#include <string>
#include <utility>

namespace paceline::testing {

class ForwardingDevice : public gpu::Device {
public:
  explicit ForwardingDevice(std::shared_ptr<gpu::Device> device) : device_(std::move(device)) {}

  const std::string& name() const override { return device_->name(); }
  const std::string& kernel() const override { return device_->kernel(); }
  gpu::DeviceMemory memory() const override { return device_->memory(); }
  bool on_host() const override { return device_->on_host(); }
  bool lanes_compete() const override { return device_->lanes_compete(); }
  Result<std::shared_ptr<gpu::Buffer>> allocate(std::size_t bytes) override {
    return device_->allocate(bytes);
  }
  Result<std::shared_ptr<const gpu::Weight>> pack(std::span<const gpu::HostMatrix> parts) override {
    return device_->pack(parts);
  }
  Result<void> prepare_fast_products(std::span<const std::shared_ptr<const gpu::Weight>> weights,
                                     int rows) override {
    return device_->prepare_fast_products(weights, rows);
  }
  Result<std::shared_ptr<gpu::Buffer>> upload(std::span<const float> values) override {
    return device_->upload(values);
  }
  Result<std::unique_ptr<gpu::Lane>> open_lane(std::string role) override {
    return device_->open_lane(std::move(role));
  }

protected:
  std::shared_ptr<gpu::Device> device_;
};

} // namespace paceline::testing
