#include "gpu/kv_pool.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace paceline::gpu {

std::shared_ptr<const PageTable> PageTable::extend(const PageTable* old, int page_tokens,
                                                   std::vector<PageRef> more) {
  assert(!old || old->page_tokens == page_tokens);
  auto table = old ? std::make_shared<PageTable>(*old) : std::make_shared<PageTable>();
  table->page_tokens = page_tokens;
  for (PageRef& page : more) {
    table->ids.push_back(page ? page->id : 0);
    table->pages.push_back(std::move(page));
  }
  return table;
}

std::shared_ptr<const PageTable> PageTable::with(const PageTable& old, PageRef state, StateAt begin,
                                                 StateAt snapshot) {
  auto table = std::make_shared<PageTable>(old);
  table->state = std::move(state);
  table->begin = std::move(begin);
  table->snapshot = std::move(snapshot);
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

void KvPool::add_states(std::shared_ptr<Buffer> memory, std::size_t states) {
  states_ = std::move(memory);
  held_.resize(states);
  free_states_.reserve(states);
  for (std::size_t id = states; id-- > 0;)
    free_states_.push_back(std::uint32_t(id));
}

PageRef KvPool::take() {
  return take_from(free_);
}

PageRef KvPool::take_state() {
  return take_from(free_states_);
}

PageRef KvPool::take_from(std::vector<std::uint32_t>& free) {
  auto page = std::make_unique<Page>();
  {
    const std::lock_guard lock(mutex_);
    if (free.empty())
      return nullptr;
    page->id = free.back();
    free.pop_back();
  }
  return {page.release(), [pool = shared_from_this(), &free](const Page* last) {
            pool->give_back(free, last->id);
            delete last;
          }};
}

void KvPool::give_back(std::vector<std::uint32_t>& free, std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  if (&free == &free_states_)
    held_[id] = 0;
  free.push_back(id); // Never allocates, since the capacity was reserved.
}

PoolLedger KvPool::ledger() const {
  const std::lock_guard lock(mutex_);
  return {total_, free_.size(), total_ - free_.size(), held_.size() - free_states_.size(),
          free_states_.size()};
}

} // namespace paceline::gpu
