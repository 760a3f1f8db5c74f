// Allocates the memory of KV pools, which is all that they need a device for.
#include "gpu/device.hpp"
#include "gpu/kv_pool.hpp"

#include <cassert>
#include <fmt/format.h>
#include <limits>

namespace paceline::gpu {

Result<std::shared_ptr<KvPool>> KvPool::create(Device& device, KvShape shape, std::size_t pages,
                                               std::size_t states) {
  const std::size_t page_bytes = shape.bytes();
  if (pages == 0 || page_bytes == 0 || shape.page_tokens <= 0)
    return fail(ErrorCode::out_of_memory, "the KV cache has no room for a single page",
                "give it more with EngineOptions::kv_memory_bytes");
  if (pages > std::numeric_limits<std::uint32_t>::max() ||
      pages > std::numeric_limits<std::size_t>::max() / page_bytes)
    return fail(ErrorCode::invalid_argument, fmt::format("a KV cache of {} pages", pages),
                "give it less with EngineOptions::kv_memory_bytes");
  if (!device.shards().empty())
    return create_shards(device, shape, pages);
  const std::size_t state_bytes = states * shape.state_bytes;
  auto memory = device.allocate(pages * page_bytes);
  auto with_states = memory && state_bytes > 0 ? device.allocate(state_bytes) : memory;
  if (!with_states && with_states.error().code == ErrorCode::out_of_memory)
    return fail(ErrorCode::out_of_memory,
                fmt::format("no memory for a KV cache of {:.1f} MiB on {}",
                            double(pages * page_bytes + state_bytes) / 0x1p20, device.name()),
                "give it less with EngineOptions::kv_memory_bytes");
  if (!with_states)
    return tl::unexpected(with_states.error());
  const std::shared_ptr<KvPool> pool(new KvPool(shape, std::move(*memory), pages));
  if (state_bytes > 0)
    pool->add_states(std::move(*with_states), states);
  return pool;
}

Result<std::shared_ptr<KvPool>> KvPool::create_shards(Device& group, KvShape shape,
                                                      std::size_t pages) {
  assert(shape.shards == int(group.shards().size()));
  shape.shards = 1;
  std::shared_ptr<KvPool> first;
  for (const auto& device : group.shards()) {
    auto pool = create(*device, shape, pages);
    if (!pool)
      return pool;
    if (first)
      first->others_.push_back(std::move(*pool));
    else
      first = std::move(*pool);
  }
  return first;
}

} // namespace paceline::gpu
