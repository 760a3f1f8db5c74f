#include "gpu/cpu/device.hpp"

#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/lane.hpp"
#include "gpu/cpu/memory.hpp"
#include "gpu/cpu/topology.hpp"
#include "gpu/device_group.hpp"
#include "gpu/limits.hpp"

#include <algorithm>
#include <cassert>
#include <fmt/format.h>

namespace paceline::gpu::cpu {
namespace {

class CpuDevice final : public Device {
public:
  CpuDevice(std::vector<Core> cores, const Kernels& kernels, DeviceOptions options)
      : cores_(std::move(cores)), name_("cpu:" + core_list(cores_)), kernels_(kernels),
        kernel_(kernels.name()), options_(std::move(options)) {}

  const std::string& name() const override { return name_; }
  const std::string& kernel() const override { return kernel_; }
  DeviceMemory memory() const override { return host_memory(); }
  bool faster_in_int8() const override { return kernels_.faster_in_int8(); }

  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) override {
    return allocate_host(bytes);
  }
  Result<std::shared_ptr<const Weight>> pack(std::span<const HostMatrix> parts) override {
    return PackedWeight::pack(parts);
  }
  Result<std::shared_ptr<Buffer>> upload(std::span<const float> values) override {
    auto buffer = allocate_host(values.size_bytes());
    if (buffer)
      std::copy(values.begin(), values.end(), reinterpret_cast<float*>((*buffer)->data()));
    return buffer;
  }
  Result<std::unique_ptr<Lane>> open_lane(std::string role) override {
    LaneOptions lane;
    lane.cores = team_cores(role);
    std::vector<Core> sorted;
    for (int core : lane.cores)
      sorted.push_back({core, core});
    std::sort(sorted.begin(), sorted.end(), [](Core a, Core b) { return a.index < b.index; });
    sorted.erase(std::unique(sorted.begin(), sorted.end(),
                             [](Core a, Core b) { return a.index == b.index; }),
                 sorted.end());
    return open(role + " cpu:" + core_list(sorted), std::move(lane));
  }
  Result<std::shared_ptr<Device>> make_group(std::span<const std::shared_ptr<Device>> shards,
                                             GroupWork work) const override {
    for (const auto& shard : shards)
      if (!dynamic_cast<const CpuDevice*>(shard.get()))
        return Device::make_group(shards, work);
    return gpu::make_group(shards, work, open_group_lane);
  }

private:
  Result<std::unique_ptr<Lane>> open(std::string name, LaneOptions lane) const {
    lane.name = std::move(name);
    lane.kernels = &kernels_;
    lane.time = options_.time;
    lane.trace = options_.trace;
    return cpu::open_lane(std::move(lane));
  }

  // Opens a lane with the teams of all shards, one after another.
  static Result<std::unique_ptr<Lane>> open_group_lane(const DeviceGroup& group,
                                                       const std::string& role) {
    LaneOptions lane;
    for (const auto& shard : group.shards()) {
      const std::vector<int> team = static_cast<const CpuDevice&>(*shard).team_cores(role);
      lane.cores.insert(lane.cores.end(), team.begin(), team.end());
      lane.shard_threads.push_back(int(team.size()));
    }
    return static_cast<const CpuDevice&>(*group.shards().front())
        .open(role + " " + group.name(), std::move(lane));
  }

  // Orders physical cores first, then their siblings, then the same again. A small draft team
  // starts from the far end, away from the target's rank 0, which has the serial work to do.
  std::vector<int> team_cores(const std::string& role) const {
    std::vector<int> order = one_per_physical(cores_);
    const std::size_t physical = order.size();
    for (const Core& core : cores_)
      if (std::find(order.begin(), order.end(), core.index) == order.end())
        order.push_back(core.index);
    const std::size_t threads = options_.threads ? std::size_t(options_.threads) : physical;
    if (role == "draft")
      std::reverse(order.begin(), order.begin() + std::ptrdiff_t(physical));
    std::vector<int> team;
    for (std::size_t i = 0; i < threads; ++i)
      team.push_back(order[i % order.size()]);
    return team;
  }

  const std::vector<Core> cores_;
  const std::string name_;
  const Kernels& kernels_;
  const std::string kernel_;
  const DeviceOptions options_;
};

} // namespace

Result<std::shared_ptr<Device>> open_device(const DeviceName& name, const DeviceOptions& options) {
  assert(options.time);
  if (options.threads < 0 || options.threads > limits::lane_threads_max)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} threads for one lane", options.threads),
                fmt::format("EngineOptions::threads takes 0 (the physical cores) to {}",
                            limits::lane_threads_max));
  auto cores = select_cores(name.cores);
  if (!cores)
    return tl::unexpected(cores.error());
  auto kernels = choose_kernels();
  if (!kernels)
    return tl::unexpected(kernels.error());
  return std::make_shared<CpuDevice>(std::move(*cores), **kernels, options);
}

} // namespace paceline::gpu::cpu
