#include "scheduling/prefix_cache.hpp"

#include "tests/support/pools.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string_view>

using namespace paceline;
using namespace paceline::scheduling;
using namespace paceline::testing;

namespace {

constexpr int cached_page_tokens = 2;

std::uint64_t same_for_all(std::uint64_t, std::span<const TokenId>, int) {
  return 7;
}
std::uint64_t blind_to_parents(std::uint64_t, std::span<const TokenId> page, int) {
  return std::uint64_t(page[0]);
}

/// A cache with two pools, and sequences that fill pages of their own.
struct PrefixCacheWorld {
  explicit PrefixCacheWorld(std::size_t pages = 64, std::size_t entries_max = 1000,
                            PrefixCache::Hash hash = PrefixCache::hash_page)
      : pools{make_pool(pages, cached_page_tokens), make_pool(pages, cached_page_tokens)},
        books{PageBook(pages), PageBook(pages)},
        cache(cached_page_tokens, {&books[target_pool], &books[draft_pool]}, entries_max, hash) {}

  gpu::PageTableRef table(Pool pool, std::size_t pages) {
    std::vector<gpu::PageRef> fresh;
    for (std::size_t i = 0; i < pages; ++i)
      fresh.push_back(pools[pool]->take());
    return gpu::PageTable::extend(nullptr, cached_page_tokens, std::move(fresh));
  }

  /// Publishes what a sequence with pages of its own has; returns its tables, which may be dropped.
  PerPool<gpu::PageTableRef> publish(const Tokens& tokens, int target_valid, int draft_valid) {
    const std::size_t pages = (tokens.size() + cached_page_tokens - 1) / cached_page_tokens;
    PerPool<gpu::PageTableRef> tables{table(target_pool, pages), table(draft_pool, pages)};
    cache.publish(tokens, {{tables[target_pool].get(), target_valid},
                           {tables[draft_pool].get(), draft_valid}});
    return tables;
  }
  PerPool<gpu::PageTableRef> publish(const Tokens& tokens) {
    return publish(tokens, int(tokens.size()), int(tokens.size()));
  }

  std::size_t out(Pool pool) const { return pools[pool]->ledger().out; }

  PerPool<std::shared_ptr<gpu::KvPool>> pools;
  PerPool<PageBook> books;
  PrefixCache cache;
};

PrefixCache::Pages leading(const gpu::PageTableRef& table, std::size_t pages) {
  return {table->pages.begin(), table->pages.begin() + std::ptrdiff_t(pages)};
}

std::size_t found(PrefixCacheWorld& world, const Tokens& tokens) {
  return world.cache.lookup(tokens)[target_pool].size();
}

} // namespace

TEST_CASE("a prefix that was published is found again with the pages of both pools") {
  PrefixCacheWorld world;
  const auto tables = world.publish({1, 2, 3, 4, 5, 6});
  const auto pages = world.cache.lookup(Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(pages[target_pool] == leading(tables[target_pool], 3));
  CHECK(pages[draft_pool] == leading(tables[draft_pool], 3));
}

TEST_CASE("a lookup always leaves a token to feed") {
  PrefixCacheWorld world;
  world.publish({1, 2, 3, 4, 5, 6});
  CHECK(found(world, {1, 2, 3, 4, 5, 6, 7}) == 3);
  CHECK(found(world, {1, 2, 3, 4, 5, 6}) == 2);
  CHECK(found(world, {1, 2, 3, 4, 5}) == 2);
  CHECK(found(world, {1, 2, 3}) == 1);
  CHECK(found(world, {1, 2}) == 0);
  CHECK(found(world, {1}) == 0);
  CHECK(found(world, {}) == 0);
}

TEST_CASE("only full pages of right tokens are kept") {
  PrefixCacheWorld world;
  world.publish({1, 2, 3, 4, 5, 6, 7}, 5, 7);
  CHECK(world.cache.entries() == 2);
  CHECK(found(world, {1, 2, 3, 4, 5, 6, 7, 8}) == 2);
  world.publish({8, 9}, 0, 0);
  world.publish({8, 9}, -1, 2);
  world.publish({8, 9}, 1, 2);
  CHECK(world.cache.entries() == 2);
}

TEST_CASE("prefixes share as far as they agree") {
  PrefixCacheWorld world;
  const auto first_tables = world.publish({1, 2, 3, 4, 5, 6});
  world.publish({1, 2, 3, 4, 7, 8});
  CHECK(world.cache.entries() == 4);
  const auto pages = world.cache.lookup(Tokens{1, 2, 3, 4, 7, 8, 0});
  REQUIRE(pages[target_pool].size() == 3);
  CHECK(pages[target_pool][1] == first_tables[target_pool]->pages[1]); // the first to come stays
  CHECK(found(world, {1, 2, 3, 4, 7, 9, 0}) == 2);
  CHECK(found(world, {3, 4, 1, 2, 0}) == 0); // the same pages elsewhere are others
}

TEST_CASE("what another path wrote is other content, whatever the hashes say") {
  for (const PrefixCache::Hash hash : {PrefixCache::hash_page, same_for_all}) {
    PrefixCacheWorld world(64, 1000, hash);
    const Tokens tokens{1, 2, 3, 4, 5, 6, 7, 8, 9};
    const PrefillPath fast{4, 1}; // Two pages by the fast path, then two by the other.
    const auto a = world.table(target_pool, 4);
    const auto b = world.table(target_pool, 4);
    const auto lookup = [&](const PrefillPath& path) {
      return world.cache.lookup(tokens, path)[target_pool];
    };
    world.cache.publish(tokens, {{a.get(), 8}, {nullptr, 0}}, fast);
    CHECK(lookup({}).empty());
    CHECK(lookup({2, 1}) == leading(a, 1)); // The second page is another's.
    CHECK(lookup({3, 1}) == leading(a, 1)); // Half of it.
    CHECK(lookup({6, 1}) == leading(a, 2));
    CHECK(lookup(fast) == leading(a, 4));
    world.cache.publish(tokens, {{b.get(), 8}, {nullptr, 0}});
    CHECK(lookup({}) == leading(b, 4));
    CHECK(lookup(fast) == leading(a, 4));
    CHECK(PrefixCache::hash_page(7, tokens, 0) != PrefixCache::hash_page(7, tokens, 1));
  }
}

TEST_CASE("who has another salt finds nothing, whatever the hashes say") {
  for (const PrefixCache::Hash hash : {PrefixCache::hash_page, same_for_all}) {
    PrefixCacheWorld world(64, 1000, hash);
    const Tokens tokens{1, 2, 3, 4, 5};
    const auto a = world.table(target_pool, 2);
    const auto b = world.table(target_pool, 2);
    const auto lookup = [&](std::string_view salt) {
      return world.cache.lookup(tokens, {}, salt)[target_pool];
    };
    world.cache.publish(tokens, {{a.get(), 4}, {nullptr, 0}}, {}, "mine");
    CHECK(lookup("mine") == leading(a, 2));
    for (const char* other : {"", "yours", "min", "mine "})
      CHECK(lookup(other).empty());
    world.cache.publish(tokens, {{b.get(), 4}, {nullptr, 0}});
    CHECK(lookup("") == leading(b, 2));
    CHECK(lookup("mine") == leading(a, 2));
    CHECK(lookup("yours").empty());
  }
}

TEST_CASE("the fast path goes on where one of its chunks begins") {
  PrefixCacheWorld world;
  const Tokens tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
  const auto tables = world.table(target_pool, 6);
  world.cache.publish(tokens, {{tables.get(), 12}, {nullptr, 0}}, {12, 6});
  const auto cached = [&](std::size_t length, int fast) {
    return world.cache.lookup({tokens.data(), length}, {fast, 6})[target_pool].size() *
           cached_page_tokens;
  };
  CHECK(cached(13, 12) == 12);
  CHECK(cached(11, 12) == 6); // 10 are there; the second chunk begins at 6.
  CHECK(cached(6, 12) == 0);
  CHECK(cached(11, 6) == 6); // Behind its chunk another path wrote.
}

TEST_CASE("the draft's pages come back as far as they were right, and are completed later") {
  PrefixCacheWorld world;
  const Tokens tokens{1, 2, 3, 4, 5, 6};
  const auto a = world.publish(tokens, 6, 3);
  auto pages = world.cache.lookup(Tokens{1, 2, 3, 4, 5, 6, 0});
  CHECK(pages[target_pool] == leading(a[target_pool], 3));
  CHECK(pages[draft_pool] == leading(a[draft_pool], 1));
  const auto b = world.publish(tokens, 6, 6);
  pages = world.cache.lookup(Tokens{1, 2, 3, 4, 5, 6, 0});
  CHECK(pages[target_pool] == leading(a[target_pool], 3));
  CHECK(pages[draft_pool] == PrefixCache::Pages{a[draft_pool]->pages[0], b[draft_pool]->pages[1],
                                                b[draft_pool]->pages[2]});
}

TEST_CASE("the draft has no page that the target lacks") {
  PrefixCacheWorld world;
  const auto tables = world.publish({1, 2, 3, 4}, 2, 4);
  const auto pages = world.cache.lookup(Tokens{1, 2, 3, 4, 5});
  CHECK(pages[target_pool].size() == 1);
  CHECK(pages[draft_pool] == leading(tables[draft_pool], 1));
}

TEST_CASE("a cache without a draft keeps the target's pages") {
  const auto pool = make_pool(4, cached_page_tokens);
  PageBook book(4);
  PrefixCache cache(cached_page_tokens, {&book});
  const auto table =
      gpu::PageTable::extend(nullptr, cached_page_tokens, {pool->take(), pool->take()});
  cache.publish(Tokens{1, 2, 3, 4}, {{table.get(), 4}});
  const auto pages = cache.lookup(Tokens{1, 2, 3, 4, 5});
  CHECK(pages[target_pool].size() == 2);
  CHECK(pages.size() == 1);
}

TEST_CASE("whatever the hash, pages are shared exactly when all tokens up to their end agree") {
  for (const PrefixCache::Hash hash : {PrefixCache::hash_page, same_for_all, blind_to_parents}) {
    PrefixCacheWorld world(4096, 100'000, hash);
    std::mt19937_64 random(1);
    std::map<Tokens, gpu::PageRef> model; // every prefix of full pages, and its first page
    for (int round = 0; round < 300; ++round) {
      const Tokens tokens = random_tokens(random, random() % 12 + 1, 2);
      const auto shared = world.cache.lookup(tokens);
      std::size_t agree = 0;
      while ((agree + 1) * cached_page_tokens < tokens.size() &&
             model.contains(first(tokens, (agree + 1) * cached_page_tokens)))
        ++agree;
      REQUIRE(shared[target_pool].size() == agree);
      for (std::size_t i = 0; i < agree; ++i)
        REQUIRE(shared[target_pool][i] == model.at(first(tokens, (i + 1) * cached_page_tokens)));

      const auto tables = world.publish(tokens);
      for (std::size_t i = 0; (i + 1) * cached_page_tokens <= tokens.size(); ++i)
        model.emplace(first(tokens, (i + 1) * cached_page_tokens), tables[target_pool]->pages[i]);
    }
    CHECK(world.cache.entries() == model.size());
    CHECK(model.size() > 50); // pairs of pages that collide were there
  }
}

TEST_CASE("pages are given back least recently used first, the ends of prefixes before them") {
  PrefixCacheWorld world;
  world.publish({1, 1, 1, 1});
  world.publish({2, 2, 2, 2});
  world.publish({3, 3});
  found(world, {1, 1, 1, 1, 0}); // 2222, 22, 33, 1111, 11 now
  CHECK(world.cache.evict(target_pool, 1) == 1);
  CHECK(found(world, {1, 1, 1, 1, 0}) == 2);
  CHECK(found(world, {3, 3, 0}) == 1);
  CHECK(found(world, {2, 2, 2, 2, 0}) == 1); // now the most recent
  CHECK(world.cache.evict(target_pool, 2) == 2);
  CHECK(found(world, {1, 1, 1, 1, 0}) == 0);
  CHECK(found(world, {3, 3, 0}) == 1);
  CHECK(found(world, {2, 2, 0}) == 1);
  CHECK(world.cache.evict(target_pool, 9) == 2);
  CHECK(world.cache.entries() == 0);
  CHECK(world.out(target_pool) == 0);
  CHECK(world.out(draft_pool) == 0);
}

TEST_CASE("pages that a sequence holds are not given back, nor are those before them lost") {
  PrefixCacheWorld world;
  auto held = world.publish({1, 1, 2, 2});
  world.publish({3, 3});
  CHECK(world.cache.evictable(target_pool) == 1);
  CHECK(world.cache.evict(target_pool, 9) == 1);
  CHECK(found(world, {1, 1, 2, 2, 0}) == 2);
  CHECK(found(world, {3, 3, 0}) == 0);
  held = {};
  CHECK(world.cache.evictable(target_pool) == 2);
  CHECK(world.cache.evict(target_pool, 9) == 2);
  CHECK(world.out(target_pool) == 0);
}

TEST_CASE("a page that nobody holds goes even when those after it are held") {
  PrefixCacheWorld world;
  world.publish({1, 1});
  const auto held = world.publish({1, 1, 2, 2}); // its own first page is not the one kept
  CHECK(world.out(target_pool) == 3);
  CHECK(world.cache.evictable(target_pool) == 1);
  CHECK(world.cache.evict(target_pool, 1) == 1);
  CHECK(world.out(target_pool) == 2);
  CHECK(world.cache.entries() == 0);
}

TEST_CASE("the draft's pages can be given back alone, from the ends of prefixes on") {
  PrefixCacheWorld world;
  const auto held = world.publish({1, 2, 3, 4})[target_pool];
  CHECK(world.cache.evict(draft_pool, 1) == 1);
  auto pages = world.cache.lookup(Tokens{1, 2, 3, 4, 5});
  CHECK(pages[target_pool] == leading(held, 2));
  CHECK(pages[draft_pool].size() == 1);
  pages = {};
  CHECK(world.cache.evict(draft_pool, 9) == 1);
  pages = world.cache.lookup(Tokens{1, 2, 3, 4, 5});
  CHECK(pages[target_pool] == leading(held, 2));
  CHECK(pages[draft_pool].empty());
  CHECK(world.out(draft_pool) == 0);
}

TEST_CASE("a draft page that goes takes those after it along, which nobody could find any more") {
  PrefixCacheWorld world;
  world.publish({1, 1});
  const auto held = world.publish({1, 1, 2, 2});
  CHECK(world.cache.evict(draft_pool, 1) == 1);
  CHECK(world.books[draft_pool].cached() == 0);
  CHECK(world.books[target_pool].cached() == 2);
}

TEST_CASE("entries are bounded: the least recently used make room") {
  PrefixCacheWorld world(64, 3);
  world.publish({1, 1, 1, 1});
  world.publish({2, 2});
  found(world, {1, 1, 1, 1, 0});
  world.publish({3, 3});
  CHECK(world.cache.entries() == 3);
  CHECK(found(world, {1, 1, 1, 1, 0}) == 2);
  CHECK(found(world, {2, 2, 0}) == 0);
  CHECK(found(world, {3, 3, 0}) == 1);
  world.publish({4, 4, 4, 4, 4, 4, 4, 4}); // longer than the bound
  CHECK(world.cache.entries() == 3);
  CHECK(found(world, {4, 4, 4, 4, 4, 4, 4, 4, 0}) == 3);
  CHECK(world.out(target_pool) == 3);
  CHECK(world.out(draft_pool) == 3);
}

TEST_CASE("the books count every page once, whoever names it how often") {
  PrefixCacheWorld world;
  const auto tables = world.publish({1, 2, 3, 4});
  PageBook& book = world.books[target_pool];
  CHECK(book.cached() == 2);
  book.name(*tables[target_pool]);
  book.name(*tables[target_pool]);
  CHECK(book.used() == 2);
  CHECK(book.cached() == 0);
  book.unname(*tables[target_pool]);
  CHECK(book.used() == 2);
  book.unname(*tables[target_pool]);
  CHECK(book.used() == 0);
  CHECK(book.cached() == 2);
}

TEST_CASE("after any use the books know what is cached, and giving all back leaves nothing") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    PrefixCacheWorld world(512, 40, seed % 2 ? same_for_all : PrefixCache::hash_page);
    std::mt19937_64 random(seed);
    std::vector<PerPool<gpu::PageTableRef>> held;
    for (int round = 0; round < 200; ++round) {
      const Tokens tokens = random_tokens(random, random() % 16 + 1, 3);
      const auto right = [&] { return int(random() % (tokens.size() + 1)); };
      held.push_back(world.publish(tokens, right(), right()));
      if (held.size() > 8)
        held.erase(held.begin() + std::ptrdiff_t(random() % held.size()));
      if (random() % 4 == 0) {
        const Pool pool = both_pools[random() % 2];
        const std::size_t possible = world.cache.evictable(pool);
        const std::size_t wanted = random() % 6;
        const std::size_t before = world.out(pool);
        CHECK(world.cache.evict(pool, wanted) == std::min(wanted, possible));
        CHECK(before - world.out(pool) == std::min(wanted, possible));
      }
      REQUIRE(world.cache.entries() <= 40);
      REQUIRE(world.books[target_pool].cached() == world.cache.entries());
      REQUIRE(world.books[draft_pool].cached() <= world.cache.entries());
    }
    held.clear();
    CHECK(world.out(target_pool) == world.books[target_pool].cached());
    CHECK(world.out(draft_pool) == world.books[draft_pool].cached());
    world.cache.evict(target_pool, 512);
    CHECK(world.cache.entries() == 0);
    for (const Pool pool : both_pools) {
      CHECK(world.out(pool) == 0);
      CHECK(world.books[pool].cached() == 0);
    }
  }
}
