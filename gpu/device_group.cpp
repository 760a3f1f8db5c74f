#include "gpu/device_group.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace paceline::gpu {
namespace {

std::vector<std::string> names_of(const Device& device) {
  std::vector<std::string> names;
  for (const auto& shard : device.shards())
    names.push_back(shard->name());
  return names.empty() ? std::vector{device.name()} : names;
}

bool are_one(const std::string& one, const std::string& other) {
  const auto a = parse_device(one);
  const auto b = parse_device(other);
  if (one == other || !a || !b || a->kind != b->kind)
    return one == other;
  return (a->kind == DeviceKind::cuda && a->index == b->index) || // Its memory, at least.
         (a->kind == DeviceKind::cpu &&
          std::ranges::find_first_of(a->cores, b->cores) != a->cores.end());
}

} // namespace

DeviceGroup::DeviceGroup(std::span<const std::shared_ptr<Device>> shards, GroupWork work,
                         OpenGroupLane open)
    : shards_(shards.begin(), shards.end()), work_(work), open_(std::move(open)) {
  assert(shards_.size() > 1);
  const std::string separator = work == GroupWork::together ? "|" : "+";
  for (const auto& shard : shards_) {
    name_ += (name_.empty() ? "" : separator) + shard->name();
    if (shard->kernel() != shards_.front()->kernel())
      kernel_ += separator + shard->kernel();
  }
  kernel_ = shards_.front()->kernel() + kernel_;
}

Result<std::shared_ptr<const Weight>> DeviceGroup::pack(std::span<const HostMatrix> /*parts*/) {
  return fail(ErrorCode::internal, "a weight for all of " + name_ + ", where each has a shard", {});
}

DeviceMemory DeviceGroup::memory() const {
  DeviceMemory least = first().memory();
  if (on_host())
    return least;
  for (const auto& shard : shards_) {
    const DeviceMemory own = shard->memory();
    least = {std::min(least.total, own.total), std::min(least.available, own.available)};
  }
  return {least.total * shards_.size(), least.available * shards_.size()};
}

Result<std::shared_ptr<Buffer>> DeviceGroup::allocate(std::size_t bytes) {
  if (on_host())
    return first().allocate(bytes);
  auto near = allocate_reached_by({}, bytes);
  return near && !*near ? allocate_shared(bytes) : near;
}

Result<std::shared_ptr<Buffer>>
DeviceGroup::allocate_reached_by(std::span<const Device* const> others, std::size_t bytes) {
  std::vector<const Device*> all(others.begin(), others.end());
  for (const auto& shard : shards_)
    all.push_back(shard.get());
  return first().allocate_reached_by(all, bytes);
}

Result<void> DeviceGroup::check_heads(int head_dim) const {
  for (const auto& shard : shards_)
    if (auto heads = shard->check_heads(head_dim); !heads)
      return heads;
  return {};
}

bool share_hardware(const Device& one, const Device& other) {
  const auto names = names_of(one);
  const auto others = names_of(other);
  return std::ranges::find_first_of(names, others, are_one) != names.end();
}

} // namespace paceline::gpu
