// A device of a node, as this machine sees it.
#pragma once

#include "gpu/device.hpp"
#include "nodes/network.hpp"

#include <memory>
#include <string>

namespace paceline::nodes {

/// A device of a node. It allocates memory of this host, for rows that cross. Weights, pages and
/// lanes are on the node and used through RemoteStage: `pack`, `upload` and `open_lane` fail.
class StageDevice final : public gpu::Device {
public:
  /// host: a device of this machine.
  StageDevice(std::string name, NodeAddress address, std::shared_ptr<gpu::Device> host)
      : name_(std::move(name)), address_(std::move(address)), host_(std::move(host)) {}

  const NodeAddress& address() const { return address_; }

  const std::string& name() const override { return name_; }
  const std::string& kernel() const override { return kernel_; }
  /// Returns nothing: the node says how much it gives an engine.
  gpu::DeviceMemory memory() const override { return {}; }
  bool elsewhere() const override { return true; }
  Result<std::shared_ptr<gpu::Buffer>> allocate(std::size_t bytes) override {
    return host_->allocate(bytes);
  }
  Result<std::shared_ptr<const gpu::Weight>>
  pack(std::span<const gpu::HostMatrix> /*parts*/) override {
    return there();
  }
  Result<std::shared_ptr<gpu::Buffer>> upload(std::span<const float> /*values*/) override {
    return there();
  }
  Result<std::unique_ptr<gpu::Lane>> open_lane(std::string /*role*/) override { return there(); }

private:
  tl::unexpected<Error> there() const {
    return fail(ErrorCode::unsupported, name_ + " is another machine's, and has stages alone",
                "give a device of this machine");
  }

  std::string name_;
  NodeAddress address_;
  std::shared_ptr<gpu::Device> host_;
  std::string kernel_;
};

} // namespace paceline::nodes
