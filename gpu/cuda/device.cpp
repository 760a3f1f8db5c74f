#include "gpu/cuda/device.hpp"

#include "gpu/cuda/find.hpp"
#include "gpu/cuda/group_lane.hpp"
#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/lane.hpp"
#include "gpu/cuda/weight.hpp"
#include "gpu/device_group.hpp"
#include "gpu/stacked_weight.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <mutex>
#include <set>

namespace paceline::gpu::cuda {
namespace {

class CudaDevice final : public Device {
public:
  /// partition: null: it has the GPU as a whole.
  CudaDevice(std::shared_ptr<Context> context, std::shared_ptr<const Partition> partition,
             DeviceOptions options)
      : context_(std::move(context)), partition_(std::move(partition)),
        name_(name_of(*context_, partition_.get())), options_(std::move(options)) {}

  const std::string& name() const override { return name_; }
  const std::string& kernel() const override { return kernel_; }
  DeviceMemory memory() const override { return context_->memory(); }
  bool on_host() const override { return false; }

  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) override {
    return context_->allocate(bytes);
  }
  Result<std::shared_ptr<Buffer>> allocate_shared(std::size_t bytes) override {
    return context_->allocate_pinned(bytes);
  }
  Result<std::shared_ptr<Buffer>> allocate_reached_by(std::span<const Device* const> others,
                                                      std::size_t bytes) override {
    std::set<int> peers;
    for (const Device* other : others)
      if (!add_index(peers, *other))
        return nullptr;
    return context_->allocate_reached_by(std::move(peers), bytes);
  }
  bool rounds_to_int8() const override { return false; }
  Result<std::shared_ptr<const Weight>> pack(std::span<const HostMatrix> parts) override {
    return pack_stacked(parts, [this](std::span<const HostMatrix> alike) {
      return DeviceWeight::pack(*context_, alike);
    });
  }
  Result<void> prepare_fast_products(std::span<const std::shared_ptr<const Weight>> weights,
                                     int rows) override {
    auto products = cuda::prepare_fast_products(context_, weights, rows);
    if (!products)
      return tl::unexpected(products.error());
    const std::lock_guard lock(mutex_);
    products_ = std::move(*products);
    return {};
  }
  Result<std::shared_ptr<Buffer>> upload(std::span<const float> values) override {
    return cuda::upload(*context_, values);
  }
  Result<void> check_heads(int head_dim) const override {
    if (head_dim % kernels::head_dim_step == 0 && head_dim <= kernels::head_dim_max)
      return {};
    return fail(ErrorCode::unsupported,
                fmt::format("{} takes attention heads of a multiple of {} up to {} dimensions, and "
                            "the model's have {}",
                            name(), kernels::head_dim_step, kernels::head_dim_max, head_dim),
                "run it with EngineOptions::devices = cpu");
  }
  Result<std::unique_ptr<Lane>> open_lane(std::string role) override {
    return cuda::open_lane(context_, partition_, role, products(), lane_options(role, name()));
  }
  /// Looks for NCCL now; without it GPUs copy from each other.
  Result<std::shared_ptr<Device>> make_group(std::span<const std::shared_ptr<Device>> shards,
                                             GroupWork work) const override {
    for (const auto& shard : shards) {
      const auto* gpu = dynamic_cast<const CudaDevice*>(shard.get());
      if (!gpu)
        return Device::make_group(shards, work);
      if (gpu->partition_)
        return fail(ErrorCode::unsupported,
                    gpu->name() + " is a part of a GPU, and a stage or shard has a whole one",
                    "use " + gpu->context_->name());
    }
    auto nccl = Nccl::load();
    if (!nccl && nccl.error().code != ErrorCode::not_found)
      return tl::unexpected(nccl.error());
    return gpu::make_group(shards, work,
                           [found = nccl ? std::optional(*nccl) : std::nullopt](
                               const DeviceGroup& group, const std::string& role) {
                             return open_group_lane(group, role, found);
                           });
  }

private:
  static std::string name_of(const Context& context, const Partition* partition) {
    return partition ? context.name() + "/" + to_string(partition->multiprocessors())
                     : context.name();
  }

  /// Adds the GPU's, or the shards' indices; returns false if a device is not a CUDA GPU.
  static bool add_index(std::set<int>& peers, const Device& device) {
    if (const auto* gpu = dynamic_cast<const CudaDevice*>(&device)) {
      peers.insert(gpu->context_->index());
      return true;
    }
    const auto shards = device.shards();
    return !shards.empty() && std::all_of(shards.begin(), shards.end(), [&](const auto& shard) {
      return add_index(peers, *shard);
    });
  }

  static Result<std::unique_ptr<Lane>> open_group_lane(const DeviceGroup& group,
                                                       const std::string& role,
                                                       const std::optional<Nccl>& nccl) {
    std::vector<GroupMember> members;
    for (const auto& shard : group.shards()) {
      const auto& gpu = static_cast<const CudaDevice&>(*shard);
      members.push_back({gpu.context_, gpu.products()});
    }
    const auto& first = static_cast<const CudaDevice&>(*group.shards().front());
    return cuda::open_group_lane(std::move(members), role, nccl,
                                 first.lane_options(role, group.name()));
  }

  FastProductsRef products() const {
    const std::lock_guard lock(mutex_);
    return products_;
  }
  ThreadLaneOptions lane_options(const std::string& role, const std::string& device) const {
    return {role + " " + device, options_.time, options_.trace};
  }

  const std::shared_ptr<Context> context_;
  const std::shared_ptr<const Partition> partition_;
  const std::string name_;
  const std::string kernel_ = "cuda";
  const DeviceOptions options_;
  mutable std::mutex mutex_;
  FastProductsRef products_; ///< Null: none are prepared.
};

} // namespace

Result<std::shared_ptr<Device>> open_device(const DeviceName& name, const DeviceOptions& options) {
  const auto count = count_gpus();
  if (!count)
    return fail(count.error().code,
                fmt::format("there is no cuda:{}: {}", name.index, count.error().message),
                count.error().hint);
  if (name.index >= *count)
    return fail(ErrorCode::not_found, fmt::format("there is no cuda:{}", name.index),
                *count == 1 ? "this machine has cuda:0 alone"
                            : fmt::format("this machine has cuda:0 to cuda:{}", *count - 1));
  auto context = Context::of(name.index);
  if (!context)
    return tl::unexpected(context.error());
  (*context)->log_to(options.log);
  std::shared_ptr<const Partition> partition;
  if (name.multiprocessors) {
    auto found = Partition::of(**context, *name.multiprocessors);
    if (!found)
      return tl::unexpected(found.error());
    partition = std::move(*found);
  }
  return std::make_shared<CudaDevice>(std::move(*context), std::move(partition), options);
}

} // namespace paceline::gpu::cuda
