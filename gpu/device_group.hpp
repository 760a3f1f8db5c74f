// Several devices as one: each with a shard of the model (Megatron-LM: Shoeybi et al. 2019, section
// 3), or with some of its layers.
#pragma once

#include "gpu/device.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace paceline::gpu {

class DeviceGroup;
/// Opens a lane that has the threads and queues of all the group's devices.
using OpenGroupLane =
    std::function<Result<std::unique_ptr<Lane>>(const DeviceGroup& group, const std::string& role)>;

/// The device that a back end's Device::make_group returns.
class DeviceGroup final : public Device {
public:
  /// shards: two or more devices.
  DeviceGroup(std::span<const std::shared_ptr<Device>> shards, GroupWork work, OpenGroupLane open);

  GroupWork work() const { return work_; }
  /// Returns "cpu:0|cpu:1" or, if they work in turn, "cpu:0+cpu:1".
  const std::string& name() const override { return name_; }
  const std::string& kernel() const override { return kernel_; }
  /// Returns the host's memory, or the least device's memory times the number of devices.
  DeviceMemory memory() const override;
  bool on_host() const override { return first().on_host(); }
  bool lanes_compete() const override { return first().lanes_compete(); }
  /// Allocates memory that every shard reads and writes.
  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) override;
  Result<std::shared_ptr<Buffer>> allocate_shared(std::size_t bytes) override {
    return first().allocate_shared(bytes);
  }
  Result<std::shared_ptr<Buffer>> allocate_reached_by(std::span<const Device* const> others,
                                                      std::size_t bytes) override;
  /// Fails, because weights belong on the shards.
  Result<std::shared_ptr<const Weight>> pack(std::span<const HostMatrix> parts) override;
  Result<std::shared_ptr<Buffer>> upload(std::span<const float> values) override {
    return first().upload(values);
  }
  bool rounds_to_int8() const override { return all_of(&Device::rounds_to_int8); }
  bool faster_in_int8() const override { return all_of(&Device::faster_in_int8); }
  Result<void> check_heads(int head_dim) const override;
  std::span<const std::shared_ptr<Device>> shards() const override { return shards_; }
  Result<std::unique_ptr<Lane>> open_lane(std::string role) override { return open_(*this, role); }

private:
  Device& first() const { return *shards_.front(); }
  bool all_of(bool (Device::*is)() const) const {
    return std::ranges::all_of(shards_, [is](const auto& shard) { return ((*shard).*is)(); });
  }

  const std::vector<std::shared_ptr<Device>> shards_;
  const GroupWork work_;
  const OpenGroupLane open_;
  std::string name_;
  std::string kernel_; ///< e.g. "highway"; if they differ, the kernels of all shards.
};

inline std::shared_ptr<Device> make_group(std::span<const std::shared_ptr<Device>> shards,
                                          GroupWork work, OpenGroupLane open) {
  return std::make_shared<DeviceGroup>(shards, work, std::move(open));
}

/// Returns whether two devices, or shards of them, are one, or processors with a core in common.
bool share_hardware(const Device& one, const Device& other);

} // namespace paceline::gpu
