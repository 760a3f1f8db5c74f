#include "gpu/kv_pool.hpp"

#include <algorithm>
#include <cassert>

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

// The free list is filled so that the lowest page numbers are handed out first.
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
  free_.push_back(id); // Never allocates, since the capacity was reserved.
}

} // namespace paceline::gpu
