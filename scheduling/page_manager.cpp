#include "scheduling/page_manager.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace paceline::scheduling {

namespace {

std::size_t pages_in(const std::shared_ptr<gpu::KvPool>& pool) {
  return pool ? pool->ledger().total : 0;
}

std::span<const TokenId> leading(const TokenLogView& log, int length) {
  return log ? log->first(std::clamp(length, 0, log->size())) : std::span<const TokenId>();
}

KvGrant refused(SequenceId sequence) {
  KvGrant grant;
  grant.sequence = sequence;
  return grant;
}

} // namespace

PageManager::PageManager(Config config)
    : pools_(std::move(config.pools)), telemetry_(std::move(config.telemetry)),
      page_tokens_(pools_.target->shape().page_tokens),
      attention_window_(config.attention_window), books_{PageBook(pages_in(pools_.target)),
                                                         PageBook(pages_in(pools_.draft))},
      prefixes_(page_tokens_, {&books_.target, &books_.draft}) {
  assert(!pools_.draft || pools_.draft->shape().page_tokens >= page_tokens_);
}

KvGrant PageManager::reserve(const KvReserve& wanted) {
  drop(wanted.sequence);
  PerPool<PrefixCache::Pages> shared =
      prefixes_.lookup(leading(wanted.log, wanted.length), wanted.path);
  const PerPool<int> cached{int(shared.target.size()) * page_tokens_,
                            int(shared.draft.size()) * page_tokens_};
  Tables found;
  for (const Pool pool : both_pools)
    if (has(pool))
      found[pool] = gpu::PageTable::extend(nullptr, page_tokens_, std::exchange(shared[pool], {}));
  const auto reach = std::int64_t(cached.target) + wanted.target_ahead;
  const PerPool<int> capacity{int(std::min<std::int64_t>(wanted.capacity, reach)), wanted.capacity};
  KvGrant granted = grant(wanted.sequence, std::move(found), capacity, cached.target);
  granted.cached_target = granted.granted ? cached.target : 0;
  granted.cached_draft = granted.granted ? cached.draft : 0;
  return granted;
}

KvGrant PageManager::grow(const KvGrow& wanted) {
  const auto known = tables_.find(wanted.sequence);
  if (known == tables_.end())
    return refused(wanted.sequence);
  return grant(wanted.sequence, known->second, wanted.capacity, wanted.target_read);
}

KvGrant PageManager::grant(SequenceId sequence, Tables found, const PerPool<int>& capacity,
                           int target_read) {
  if (attention_window_ > 0)
    found.target = gpu::PageTable::since(found.target, target_read + 1 - attention_window_);
  const std::optional<Tables> tables = extend(found, capacity);
  if (!tables)
    return refused(sequence);
  adopt(sequence, *tables);
  return {sequence, true, tables->target, tables->draft, 0, 0};
}

void PageManager::publish(const KvPublish& right) {
  const auto known = tables_.find(right.sequence);
  if (known == tables_.end())
    return;
  const Tables& tables = known->second;
  prefixes_.publish(
      leading(right.log, right.target_valid),
      {{tables.target.get(), right.target_valid}, {tables.draft.get(), right.draft_valid}},
      right.path);
}

void PageManager::release(const KvRelease& done) {
  publish({done.sequence, done.log, done.target_valid, done.draft_valid, done.path});
  drop(done.sequence);
}

void PageManager::reset() {
  while (!tables_.empty())
    drop(tables_.begin()->first);
}

std::size_t PageManager::missing(const Tables& tables, Pool pool, int capacity) const {
  const auto size = std::size_t(page_tokens_);
  const std::size_t pages = (std::size_t(std::max(capacity, 0)) + size - 1) / size;
  return pages - std::min(pages, tables[pool]->pages.size());
}

/// How many of `pages` free pages the pool lacks.
std::size_t PageManager::shortage(Pool pool, std::size_t pages) const {
  return has(pool) ? pages - std::min(pages, pools_[pool]->ledger().free) : 0;
}

/// Either both pools have that many free pages afterwards, or nothing was evicted.
bool PageManager::make_room(const PerPool<std::size_t>& pages) {
  for (const Pool pool : both_pools) {
    const std::size_t lacking = shortage(pool, pages[pool]);
    if (lacking > 0 && lacking > prefixes_.evictable(pool))
      return false;
  }
  for (const Pool pool : both_pools) // the target's entries take draft pages with them
    prefixes_.evict(pool, shortage(pool, pages[pool]));
  return true;
}

std::optional<PageManager::Tables> PageManager::extend(const Tables& tables,
                                                       const PerPool<int>& capacity) {
  PerPool<std::size_t> pages;
  for (const Pool pool : both_pools)
    pages[pool] = has(pool) ? missing(tables, pool, capacity[pool]) : 0;
  if (!make_room(pages))
    return std::nullopt;
  Tables extended = tables;
  for (const Pool pool : both_pools) {
    std::vector<gpu::PageRef> fresh;
    while (fresh.size() < pages[pool]) {
      gpu::PageRef page = pools_[pool]->take();
      if (!page)
        return std::nullopt;
      fresh.push_back(std::move(page));
    }
    if (!fresh.empty())
      extended[pool] = gpu::PageTable::extend(tables[pool].get(), page_tokens_, std::move(fresh));
  }
  return extended;
}

void PageManager::adopt(SequenceId sequence, Tables tables) {
  for (const Pool pool : both_pools)
    if (tables[pool])
      books_[pool].name(*tables[pool]);
  drop(sequence);
  tables_.emplace(sequence, std::move(tables));
}

void PageManager::drop(SequenceId sequence) {
  const auto known = tables_.find(sequence);
  if (known == tables_.end())
    return;
  for (const Pool pool : both_pools)
    if (known->second[pool])
      books_[pool].unname(*known->second[pool]);
  tables_.erase(known);
}

KvLedger PageManager::ledger(Pool pool) const {
  const gpu::PoolLedger pages = pools_[pool]->ledger();
  const PageBook& book = books_[pool];
  return {.total = pages.total,
          .free = pages.free,
          .cached = book.cached(),
          .used = book.used(),
          .quarantined = pages.out - book.used() - book.cached()};
}

void PageManager::account() {
  base::add(telemetry_->messages, 1);
  KvLedger sum;
  for (const Pool pool : both_pools) {
    if (!has(pool))
      continue;
    const KvLedger of_pool = ledger(pool);
    sum.total += of_pool.total;
    sum.used += of_pool.used;
    sum.cached += of_pool.cached;
    sum.quarantined += of_pool.quarantined;
  }
  telemetry_->kv_pages_total = sum.total;
  telemetry_->kv_pages_used = sum.used;
  telemetry_->kv_pages_cached = sum.cached;
  telemetry_->kv_pages_quarantined = sum.quarantined;
}

} // namespace paceline::scheduling
