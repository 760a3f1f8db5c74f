#include "gpu/kv_pool.hpp"

#include "gpu/device.hpp"

#include <algorithm>
#include <cassert>
#include <fmt/format.h>
#include <limits>

namespace paceline::gpu {

std::shared_ptr<const PageTable> PageTable::extend(const PageTable* old, int page_tokens,
                                                   std::vector<PageRef> more) {
  assert(!old || old->page_tokens == page_tokens);
  auto table = std::make_shared<PageTable>();
  table->page_tokens = page_tokens;
  if (old)
    table->pages = old->pages;
  table->pages.insert(table->pages.end(), more.begin(), more.end());
  table->ids.reserve(table->pages.size());
  for (const PageRef& page : table->pages)
    table->ids.push_back(page ? page->id : 0);
  return table;
}

std::shared_ptr<const PageTable> PageTable::since(std::shared_ptr<const PageTable> old,
                                                  int position) {
  const auto first =
      std::min(std::size_t(std::max(position, 0) / old->page_tokens), old->pages.size());
  if (first == 0 || !old->pages[first - 1])
    return old;
  auto table = std::make_shared<PageTable>(*old);
  std::fill_n(table->pages.begin(), first, nullptr);
  std::fill_n(table->ids.begin(), first, 0);
  return table;
}

Result<std::shared_ptr<KvPool>> KvPool::create(Device& device, KvShape shape, std::size_t pages) {
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
  auto memory = device.allocate(pages * page_bytes);
  if (!memory && memory.error().code == ErrorCode::out_of_memory)
    return fail(ErrorCode::out_of_memory,
                fmt::format("no memory for a KV cache of {:.1f} MiB on {}",
                            double(pages * page_bytes) / 0x1p20, device.name()),
                "give it less with EngineOptions::kv_memory_bytes");
  if (!memory)
    return tl::unexpected(memory.error());
  return std::shared_ptr<KvPool>(new KvPool(shape, std::move(*memory), pages));
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

// The lowest numbers are handed out first.
KvPool::KvPool(KvShape shape, std::shared_ptr<Buffer> memory, std::size_t pages)
    : shape_(shape), memory_(std::move(memory)), base_(memory_->data()), total_(pages) {
  features_ = {reinterpret_cast<float*>(base_ + pages * shape_.page_bytes()),
               int(pages) * shape_.page_tokens, shape_.features, shape_.features};
  free_.reserve(pages);
  for (std::size_t id = pages; id-- > 0;)
    free_.push_back(std::uint32_t(id));
}

PageRef KvPool::take() {
  auto page = std::make_unique<Page>();
  {
    const std::lock_guard lock(mutex_);
    if (free_.empty())
      return nullptr;
    page->id = free_.back();
    free_.pop_back();
  }
  return {page.release(), [pool = shared_from_this()](const Page* last) {
            pool->give_back(last->id);
            delete last;
          }};
}

PoolLedger KvPool::ledger() const {
  const std::lock_guard lock(mutex_);
  return {total_, free_.size(), total_ - free_.size()};
}

void KvPool::give_back(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  free_.push_back(id); // Reserved: never allocates.
}

} // namespace paceline::gpu
