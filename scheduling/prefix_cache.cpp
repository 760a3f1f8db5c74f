#include "scheduling/prefix_cache.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

namespace paceline::scheduling {
namespace {

/// Returns the key before a sequence's first page.
std::uint64_t key_before(std::string_view salt) {
  return salt.empty() ? 0 : std::hash<std::string_view>{}(salt);
}

} // namespace

void PageBook::name(const gpu::PageTable& table) {
  for (const gpu::PageRef& page : table.pages)
    if (page)
      change(page->id, +1, 0);
}

void PageBook::unname(const gpu::PageTable& table) {
  for (const gpu::PageRef& page : table.pages)
    if (page)
      change(page->id, -1, 0);
}

void PageBook::keep(const gpu::PageRef& page) {
  change(page->id, 0, +1);
}

void PageBook::let_go(const gpu::PageRef& page) {
  change(page->id, 0, -1);
}

void PageBook::change(std::uint32_t page, int tables, int entries) {
  Names& names = names_[page];
  const auto is_used = [&] { return std::size_t(names.tables > 0); };
  const auto is_cached = [&] { return std::size_t(names.tables == 0 && names.entries > 0); };
  used_ -= is_used();
  cached_ -= is_cached();
  names.tables += std::uint32_t(tables);
  names.entries += std::uint32_t(entries);
  used_ += is_used();
  cached_ += is_cached();
}

std::uint64_t PrefixCache::hash_page(std::uint64_t parent, std::span<const TokenId> page,
                                     int fast) {
  const std::string_view bytes(reinterpret_cast<const char*>(page.data()), page.size_bytes());
  const std::uint64_t content = std::hash<std::string_view>{}(bytes) + std::uint64_t(fast);
  return (parent ^ content) * 0x9E3779B97F4A7C15u + 1;
}

PrefixCache::PrefixCache(int page_tokens, PerPool<PageBook*> books, std::size_t entries_max,
                         Hash hash)
    : page_tokens_(page_tokens), books_(std::move(books)), entries_max_(entries_max), hash_(hash) {
  assert(page_tokens > 0 && !books_.empty());
}

PrefixCache::Content PrefixCache::page_of(const Text& text, std::size_t index) const {
  const int begin = int(index) * page_tokens_;
  return {text.tokens.subspan(std::size_t(begin), std::size_t(page_tokens_)),
          text.path.fast_in(begin, begin + page_tokens_),
          index == 0 ? text.salt : std::string_view()};
}

std::uint64_t PrefixCache::key_of(const Entry* parent, const Content& page) const {
  return hash_(parent ? parent->key : key_before(page.salt), page.tokens, page.fast);
}

/// Returns the entries of the leading `pages` pages, as far as they are there.
PrefixCache::Path PrefixCache::walk(const Text& text, std::size_t pages) {
  Path walked;
  while (walked.size() < pages) {
    const Entry* parent = walked.empty() ? nullptr : &*walked.back();
    const Content page = page_of(text, walked.size());
    const auto [first, last] = index_.equal_range(key_of(parent, page));
    const auto found = std::find_if(first, last, [&](const auto& candidate) {
      const Entry& entry = *candidate.second;
      return entry.parent == parent && entry.fast == page.fast && entry.salt == page.salt &&
             std::ranges::equal(entry.tokens, page.tokens);
    });
    if (found == last)
      break;
    walked.push_back(found->second);
  }
  return walked;
}

/// Moves a path to the front, so that parents end up before their children.
void PrefixCache::touch(const Path& path) {
  std::for_each(path.rbegin(), path.rend(),
                [&](Position entry) { recent_.splice(recent_.begin(), recent_, entry); });
}

/// Returns the entries of a beginning that a sequence may go on from.
PrefixCache::Path PrefixCache::beginning(const Text& text) {
  if (text.tokens.empty())
    return {};
  Path walked = walk(text, (text.tokens.size() - 1) / std::size_t(page_tokens_));
  while (!text.path.begins(int(walked.size()) * page_tokens_))
    walked.pop_back();
  return walked;
}

PerPool<PrefixCache::Pages> PrefixCache::pages_of(const Path& path) const {
  PerPool<Pages> found(books_.size());
  for (Pool pool = 0; pool < found.size(); ++pool)
    for (const Position entry : path) {
      if (!entry->pages[pool])
        break;
      found[pool].push_back(entry->pages[pool]);
    }
  return found;
}

PerPool<PrefixCache::Pages> PrefixCache::lookup(std::span<const TokenId> tokens,
                                                const PrefillPath& path, std::string_view salt) {
  const Path walked = beginning({tokens, path, salt});
  touch(walked);
  return pages_of(walked);
}

std::pair<PerPool<PrefixCache::Pages>, gpu::PageRef>
PrefixCache::lookup_state(std::span<const TokenId> tokens, const PrefillPath& path,
                          std::string_view salt) {
  Path walked = beginning({tokens, path, salt});
  while (!walked.empty() &&
         (!walked.back()->state || !path.begins(int(walked.size()) * page_tokens_)))
    walked.pop_back();
  touch(walked);
  return {pages_of(walked), walked.empty() ? nullptr : walked.back()->state};
}

void PrefixCache::keep_state(std::span<const TokenId> tokens, const gpu::StateAt& snapshot,
                             const PrefillPath& path, std::string_view salt) {
  const auto pages = std::size_t(snapshot.position / page_tokens_);
  const Path walked = walk({tokens, path, salt}, pages);
  if (pages > 0 && walked.size() == pages && !walked.back()->state)
    walked.back()->state = snapshot.state;
}

bool PrefixCache::evict_state() {
  const auto at = std::find_if(recent_.rbegin(), recent_.rend(), [](const Entry& entry) {
    return entry.state && entry.state.use_count() == 1;
  });
  if (at == recent_.rend())
    return false;
  at->state = nullptr;
  return true;
}

std::size_t PrefixCache::full_pages(const Source& from, std::size_t tokens) const {
  if (!from.table || from.valid <= 0)
    return 0;
  assert(from.table->page_tokens == page_tokens_);
  return std::min({std::size_t(from.valid) / std::size_t(page_tokens_),
                   tokens / std::size_t(page_tokens_), from.table->pages.size()});
}

void PrefixCache::publish(std::span<const TokenId> tokens, const PerPool<Source>& from,
                          const PrefillPath& path, std::string_view salt) {
  const Text text{tokens, path, salt};
  const Source& lead = from[target_pool];
  const std::size_t pages = full_pages(lead, tokens.size());
  Path walked = walk(text, pages);
  while (walked.size() < pages && lead.table->pages[walked.size()])
    walked.push_back(
        insert(walked, page_of(text, walked.size()), lead.table->pages[walked.size()]));
  for (Pool pool = target_pool + 1; pool < from.size(); ++pool) {
    const std::size_t full = std::min(full_pages(from[pool], tokens.size()), walked.size());
    for (std::size_t i = 0; i < full; ++i)
      if (!walked[i]->pages[pool])
        set(*walked[i], pool, from[pool].table->pages[i]);
  }
  touch(walked);
  while (recent_.size() > entries_max_)
    erase(std::prev(recent_.end()));
}

PrefixCache::Position PrefixCache::insert(const Path& before, const Content& content,
                                          gpu::PageRef target) {
  Entry* parent = before.empty() ? nullptr : &*before.back();
  const auto& [tokens, fast, salt] = content;
  const std::uint64_t key = key_of(parent, content);
  PerPool<gpu::PageRef> pages(books_.size());
  recent_.push_front(
      {parent, key, {tokens.begin(), tokens.end()}, fast, std::string(salt), std::move(pages), {}});
  const Position entry = recent_.begin();
  set(*entry, target_pool, std::move(target));
  if (parent)
    parent->children.push_back(entry);
  index_.emplace(key, entry);
  return entry;
}

void PrefixCache::set(Entry& entry, Pool pool, gpu::PageRef page) {
  gpu::PageRef& old = entry.pages[pool];
  if (old)
    books_[pool]->let_go(old);
  if (page)
    books_[pool]->keep(page);
  old = std::move(page);
}

std::size_t PrefixCache::evictable(Pool pool) const {
  return std::size_t(std::ranges::count_if(
      recent_, [&](const Entry& entry) { return entry.pages[pool].use_count() == 1; }));
}

// Begins at the least recently used entry; whatever follows an entry has been passed by then.
std::size_t PrefixCache::evict(Pool pool, std::size_t pages) {
  std::size_t evicted = 0;
  for (Position entry = recent_.end(); evicted < pages && entry != recent_.begin();) {
    --entry;
    if (entry->pages[pool].use_count() != 1)
      continue;
    ++evicted;
    if (pool == target_pool)
      entry = erase(entry);
    else
      erase_pages(entry, pool);
  }
  return evicted;
}

std::vector<PrefixCache::Position> PrefixCache::with_descendants(Position entry) const {
  std::vector<Position> all{entry};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& children = all[i]->children;
    all.insert(all.end(), children.begin(), children.end());
  }
  return all;
}

PrefixCache::Position PrefixCache::erase(Position entry) {
  if (entry->parent)
    std::erase(entry->parent->children, entry);
  const std::vector<Position> all = with_descendants(entry);
  Position behind = recent_.end();
  std::for_each(all.rbegin(), all.rend(), [&](Position gone) {
    for (Pool pool = 0; pool < books_.size(); ++pool)
      set(*gone, pool, nullptr);
    const auto same = index_.equal_range(gone->key);
    index_.erase(
        std::find_if(same.first, same.second, [&](const auto& i) { return i.second == gone; }));
    behind = recent_.erase(gone);
  });
  return behind;
}

void PrefixCache::erase_pages(Position entry, Pool pool) {
  for (const Position gone : with_descendants(entry))
    set(*gone, pool, nullptr);
}

} // namespace paceline::scheduling
