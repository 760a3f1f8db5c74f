#include "scheduling/page_manager.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

namespace paceline::scheduling {

namespace {

PerPool<PageBook> books_of(const PerPool<PageManager::PoolConfig>& pools) {
  PerPool<PageBook> books;
  for (const auto& pool : pools)
    books.emplace_back(pool.pages->ledger().total);
  return books;
}

PerPool<PageBook*> pointers_to(PerPool<PageBook>& books) {
  PerPool<PageBook*> pointers;
  for (PageBook& book : books)
    pointers.push_back(&book);
  return pointers;
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
      page_tokens_(pools_[target_pool].pages->shape().page_tokens), books_(books_of(pools_)),
      prefixes_(page_tokens_, pointers_to(books_)) {
  assert(std::ranges::all_of(pools_, [this](const PoolConfig& pool) {
    return pool.pages->shape().page_tokens >= page_tokens_;
  }));
}

KvGrant PageManager::reserve(const KvReserve& wanted) {
  drop(wanted.sequence);
  const auto tokens = leading(wanted.log, wanted.length);
  PerPool<PrefixCache::Pages> shared;
  gpu::StateAt begin;
  if (recurrent(target_pool))
    std::tie(shared, begin.state) = prefixes_.lookup_state(tokens, wanted.path, wanted.salt);
  else
    shared = prefixes_.lookup(tokens, wanted.path, wanted.salt);
  begin.position = int(shared[target_pool].size()) * page_tokens_;
  PerPool<int> cached, capacity;
  Tables found;
  for (Pool pool = 0; pool < pools_.size(); ++pool) {
    cached.push_back(int(shared[pool].size()) * page_tokens_);
    const auto reach = std::int64_t(cached[pool]) + wanted.windowed_ahead;
    capacity.push_back(windowed(pool) ? int(std::min<std::int64_t>(wanted.capacity, reach))
                                      : wanted.capacity);
    found.push_back(gpu::PageTable::extend(nullptr, page_tokens_, std::move(shared[pool])));
  }
  if (!add_states(found, std::move(begin), int(tokens.size())))
    return refused(wanted.sequence);
  KvGrant granted = grant(wanted.sequence, std::move(found), capacity, cached[target_pool]);
  if (granted.granted)
    granted.cached = std::move(cached);
  return granted;
}

/// Gives tables of recurrent models a state. begin: what the target's is a copy of; length: that of
/// the text. False: there is none.
bool PageManager::add_states(Tables& tables, gpu::StateAt begin, int length) {
  for (Pool pool = 0; pool < pools_.size(); ++pool) {
    if (!recurrent(pool))
      continue;
    const bool kept = pool == target_pool; // Only a target's states are kept for others.
    gpu::PageRef state = kept ? take_state() : pools_[pool].pages->take_state();
    if (!state)
      return false;
    gpu::StateAt snapshot = kept ? snapshot_for(length, begin.position) : gpu::StateAt();
    tables[pool] =
        gpu::PageTable::with(*tables[pool], std::move(state),
                             kept ? std::move(begin) : gpu::StateAt(), std::move(snapshot));
  }
  return true;
}

KvGrant PageManager::grow(const KvGrow& wanted) {
  const auto known = tables_.find(wanted.sequence);
  if (known == tables_.end())
    return refused(wanted.sequence);
  PerPool<int> capacity;
  for (Pool pool = 0; pool < pools_.size(); ++pool)
    capacity.push_back(windowed(pool) ? wanted.windowed_capacity : wanted.capacity);
  return grant(wanted.sequence, known->second, capacity, wanted.read);
}

KvGrant PageManager::grant(SequenceId sequence, Tables found, const PerPool<int>& capacity,
                           int read) {
  for (Pool pool = 0; pool < pools_.size(); ++pool)
    if (windowed(pool))
      found[pool] = gpu::PageTable::since(found[pool], read + 1 - pools_[pool].attention_window);
  const std::optional<Tables> tables = extend(found, capacity);
  if (!tables)
    return refused(sequence);
  adopt(sequence, *tables);
  leave_spare();
  return {sequence, true, *tables, {}};
}

void PageManager::publish(const KvPublish& right) {
  const auto known = tables_.find(right.sequence);
  if (known == tables_.end() || right.valid.empty())
    return;
  assert(right.valid.size() <= pools_.size());
  PerPool<PrefixCache::Source> from;
  for (Pool pool = 0; pool < right.valid.size(); ++pool)
    from.push_back({known->second[pool].get(), right.valid[pool]});
  const auto tokens = leading(right.log, right.valid[target_pool]);
  prefixes_.publish(tokens, from, right.path, right.salt);
  const gpu::StateAt& snapshot = known->second[target_pool]->snapshot;
  if (snapshot.state && snapshot.position <= int(tokens.size()))
    prefixes_.keep_state(tokens, snapshot, right.path, right.salt);
}

/// Takes a state, if need be one that the prefix cache has.
gpu::PageRef PageManager::take_state() {
  const auto& pool = pools_[target_pool].pages;
  gpu::PageRef state = pool->take_state();
  while (!state && prefixes_.evict_state())
    state = pool->take_state();
  return state;
}

/// Takes a state for a copy at the end of the last whole page of a text of `length` tokens, of
/// which `held` are not read, for texts that begin like it. Half of all states are left to
/// sequences.
gpu::StateAt PageManager::snapshot_for(int length, int held) {
  const int position = std::max(length - 1, 0) / page_tokens_ * page_tokens_;
  const gpu::PoolLedger ledger = pools_[target_pool].pages->ledger();
  const bool many = 2 * ledger.states > ledger.states + ledger.free_states;
  if (position <= held || (many && !prefixes_.evict_state()))
    return {};
  return {take_state(), position};
}

void PageManager::release(const KvRelease& done) {
  publish({done.sequence, done.log, done.valid, done.path, done.salt});
  drop(done.sequence);
  leave_spare();
}

void PageManager::reset() {
  while (!tables_.empty())
    drop(tables_.begin()->first);
}

std::size_t PageManager::missing(const gpu::PageTableRef& table, int capacity) const {
  const auto size = std::size_t(page_tokens_);
  const std::size_t pages = (std::size_t(std::max(capacity, 0)) + size - 1) / size;
  return pages - std::min(pages, table->pages.size());
}

/// How many of `pages` free pages the pool lacks.
std::size_t PageManager::shortage(Pool pool, std::size_t pages) const {
  return pages - std::min(pages, pools_[pool].pages->ledger().free);
}

std::size_t PageManager::spare(Pool pool) const {
  const std::size_t eighth = pools_[pool].pages->ledger().total / 8;
  return pools_[pool].has_forks ? std::min(eighth, limits::fork_pages_spare_max) : 0;
}

/// Either leaves all pools with that many free pages, or evicts nothing and returns false.
bool PageManager::make_room(const PerPool<std::size_t>& pages) {
  for (Pool pool = 0; pool < pools_.size(); ++pool) {
    const std::size_t lacking = shortage(pool, pages[pool]);
    if (lacking > 0 && lacking > prefixes_.evictable(pool))
      return false;
  }
  for (Pool pool = 0; pool < pools_.size(); ++pool) // the target's entries take the others' along
    prefixes_.evict(pool, shortage(pool, pages[pool]));
  return true;
}

/// Evicts pages that are only cached until the spare ones are free, or no such page is left.
void PageManager::leave_spare() {
  for (Pool pool = 0; pool < pools_.size(); ++pool)
    prefixes_.evict(pool, std::min(shortage(pool, spare(pool)), prefixes_.evictable(pool)));
}

std::optional<PageManager::Tables> PageManager::extend(const Tables& tables,
                                                       const PerPool<int>& capacity) {
  PerPool<std::size_t> pages;
  for (Pool pool = 0; pool < pools_.size(); ++pool)
    pages.push_back(missing(tables[pool], capacity[pool]));
  if (!make_room(pages))
    return std::nullopt;
  Tables extended = tables;
  for (Pool pool = 0; pool < pools_.size(); ++pool) {
    std::vector<gpu::PageRef> fresh;
    while (fresh.size() < pages[pool]) {
      gpu::PageRef page = pools_[pool].pages->take();
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
  for (Pool pool = 0; pool < pools_.size(); ++pool)
    books_[pool].name(*tables[pool]);
  drop(sequence);
  tables_.emplace(sequence, std::move(tables));
}

void PageManager::drop(SequenceId sequence) {
  const auto known = tables_.find(sequence);
  if (known == tables_.end())
    return;
  for (Pool pool = 0; pool < pools_.size(); ++pool)
    books_[pool].unname(*known->second[pool]);
  tables_.erase(known);
}

KvLedger PageManager::ledger(Pool pool) const {
  const gpu::PoolLedger pages = pools_[pool].pages->ledger();
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
  for (Pool pool = 0; pool < pools_.size(); ++pool) {
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
