#include "gpu/sim/device.hpp"

#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/memory.hpp"
#include "gpu/device_group.hpp"
#include "gpu/sim/lane.hpp"

#include <algorithm>
#include <cassert>

namespace paceline::gpu::sim {
namespace {

class SimDevice final : public Device {
public:
  /// width: the profile's, to which weights are added.
  SimDevice(Profile profile, std::shared_ptr<WeightWidth> width, const cpu::Kernels& kernels,
            DeviceOptions options)
      : profile_(std::move(profile)), width_(std::move(width)), name_("sim:" + profile_.name),
        kernels_(kernels), options_(std::move(options)) {}

  const std::string& name() const override { return name_; }
  const std::string& kernel() const override { return profile_.name; }
  DeviceMemory memory() const override { return cpu::host_memory(); }
  bool lanes_compete() const override { return false; } // Each takes its profile's time.

  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) override {
    return cpu::allocate_host(bytes);
  }
  Result<std::shared_ptr<const Weight>> pack(std::span<const HostMatrix> parts) override {
    auto weight = cpu::PackedWeight::pack(parts);
    if (weight)
      width_->add((*weight)->format(), double((*weight)->outputs()) * (*weight)->inputs(),
                  double((*weight)->bytes()));
    return weight;
  }
  Result<std::shared_ptr<Buffer>> upload(std::span<const float> values) override {
    auto buffer = cpu::allocate_host(values.size_bytes());
    if (buffer)
      std::copy(values.begin(), values.end(), reinterpret_cast<float*>((*buffer)->data()));
    return buffer;
  }
  Result<std::unique_ptr<Lane>> open_lane(std::string role) override {
    return sim::open_lane(lane_options(role, name_));
  }
  Result<std::shared_ptr<Device>> make_group(std::span<const std::shared_ptr<Device>> shards,
                                             GroupWork work) const override {
    for (const auto& shard : shards)
      if (!dynamic_cast<const SimDevice*>(shard.get()))
        return Device::make_group(shards, work);
    return gpu::make_group(shards, work, open_group_lane);
  }

private:
  LaneOptions lane_options(const std::string& role, const std::string& device) const {
    return {role + " " + device, profile_, &kernels_, options_.time, options_.trace};
  }
  static Result<std::unique_ptr<Lane>> open_group_lane(const DeviceGroup& group,
                                                       const std::string& role) {
    const auto& first = static_cast<const SimDevice&>(*group.shards().front());
    LaneOptions lane = first.lane_options(role, group.name());
    lane.in_turn = group.work() == GroupWork::in_turn;
    for (const auto& shard : group.shards().subspan(1))
      lane.beside.push_back(static_cast<const SimDevice&>(*shard).profile_);
    return sim::open_lane(std::move(lane));
  }

  const Profile profile_;
  const std::shared_ptr<WeightWidth> width_;
  const std::string name_;
  const cpu::Kernels& kernels_;
  const DeviceOptions options_;
};

} // namespace

Result<std::shared_ptr<Device>> open_device(const DeviceName& name, const DeviceOptions& options) {
  assert(options.time);
  auto profile = parse_profile(name.profile);
  if (!profile)
    return tl::unexpected(profile.error());
  auto kernels = cpu::choose_kernels();
  if (!kernels)
    return tl::unexpected(kernels.error());
  auto width = std::make_shared<WeightWidth>();
  profile->width = width;
  return std::make_shared<SimDevice>(std::move(*profile), std::move(width), **kernels, options);
}

} // namespace paceline::gpu::sim
