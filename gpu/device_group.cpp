#include "gpu/device_group.hpp"

#include <cassert>
#include <utility>

namespace paceline::gpu {

DeviceGroup::DeviceGroup(std::span<const std::shared_ptr<Device>> shards, OpenGroupLane open)
    : shards_(shards.begin(), shards.end()), open_(std::move(open)) {
  assert(shards_.size() > 1);
  for (const auto& shard : shards_) {
    name_ += (name_.empty() ? "" : "|") + shard->name();
    if (shard->kernel() != shards_.front()->kernel())
      kernel_ += "|" + shard->kernel();
  }
  kernel_ = shards_.front()->kernel() + kernel_;
}

Result<std::shared_ptr<const Weight>> DeviceGroup::pack(std::span<const HostMatrix> /*parts*/) {
  return fail(ErrorCode::internal, "a weight for all of " + name_ + ", where each has a shard", {});
}

Result<void> DeviceGroup::check_heads(int head_dim) const {
  for (const auto& shard : shards_)
    if (auto heads = shard->check_heads(head_dim); !heads)
      return heads;
  return {};
}

} // namespace paceline::gpu
