#include "tests/scheduling/page_world.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <set>

using namespace paceline;
using namespace paceline::scheduling;
using namespace paceline::speculation;
using namespace paceline::testing;

namespace {

using PageManagerWorld = PageWorld;

void check(const KvLedger& ledger, std::size_t free, std::size_t cached, std::size_t used,
           std::size_t quarantined) {
  CHECK(ledger.free == free);
  CHECK(ledger.cached == cached);
  CHECK(ledger.used == used);
  CHECK(ledger.quarantined == quarantined);
  CHECK(ledger.total == free + cached + used + quarantined);
}

} // namespace

TEST_CASE("a reservation covers its capacity in both pools") {
  PageManagerWorld world;
  const KvGrant grant = world.reserve(1, {1, 2, 3, 4, 5}, 9);
  REQUIRE(grant.granted);
  CHECK(grant.sequence == 1);
  CHECK(grant.tables[target_pool]->capacity() == 12);
  CHECK(grant.tables[draft_pool]->capacity() == 12);
  CHECK(grant.cached[target_pool] == 0);
  CHECK(grant.cached[draft_pool] == 0);
  check(world.cache.ledger(target_pool), 13, 0, 3, 0);
  check(world.cache.ledger(draft_pool), 13, 0, 3, 0);
}

TEST_CASE("the prefix cache leaves pages free for forks, and takes none from sequences for them") {
  PageManagerWorld world(8, 16, 0, true); // one of eight
  const Tokens first{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const Tokens second{21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36};
  for (const Tokens& tokens : {first, second}) {
    world.reserve(1, tokens, int(tokens.size()));
    world.release(1, tokens);
  }
  check(world.cache.ledger(target_pool), 1, 7, 0, 0);
  REQUIRE(world.reserve(2, {41}, 28).granted);
  check(world.cache.ledger(target_pool), 1, 0, 7, 0);
  REQUIRE(world.reserve(3, {51}, 4).granted); // whose need comes first
  check(world.cache.ledger(target_pool), 0, 0, 8, 0);
}

TEST_CASE("a prefix comes back together with the draft's, without its last token") {
  PageManagerWorld world;
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8};
  const Ids target = world.reserve(1, prompt, 8).tables[target_pool]->ids;
  const Ids draft = world.reserve(1, prompt, 8).tables[draft_pool]->ids;
  world.release(1, prompt);
  check(world.cache.ledger(target_pool), 14, 2, 0, 0);

  const KvGrant again = world.reserve(2, prompt, 8);
  REQUIRE(again.granted);
  CHECK(again.cached[target_pool] == 4);
  CHECK(again.cached[draft_pool] == 4);
  const KvGrant longer = world.reserve(3, {1, 2, 3, 4, 5, 6, 7, 8, 9}, 12);
  REQUIRE(longer.granted);
  CHECK(longer.cached[target_pool] == 8);
  CHECK(longer.cached[draft_pool] == 8);
  CHECK(longer.tables[target_pool]->ids[0] == again.tables[target_pool]->ids[0]);
  check(world.cache.ledger(target_pool), 12, 0, 4, 0); // 2 shared, 1 + 1 fresh
}

TEST_CASE("a draft that was behind comes back as far as it was right") {
  PageManagerWorld world;
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8, 9};
  world.reserve(1, prompt, 9);
  world.cache.release({1, log_of(prompt), {8, 5}});
  const KvGrant grant = world.reserve(2, prompt, 9);
  CHECK(grant.cached[target_pool] == 8);
  CHECK(grant.cached[draft_pool] == 4);
  check(world.cache.ledger(target_pool), 13, 0, 3, 0);
  check(world.cache.ledger(draft_pool), 13, 0, 3, 0);
}

TEST_CASE("a running sequence's prompt can be shared while it goes on") {
  PageManagerWorld world;
  const Tokens prompt{1, 2, 3, 4, 5, 6};
  const KvGrant first = world.reserve(1, prompt, 8);
  world.cache.publish({1, log_of(prompt), {6, 6}});
  const KvGrant second = world.reserve(2, prompt, 8);
  CHECK(second.cached[target_pool] == 4);
  CHECK(second.tables[target_pool]->pages[0] == first.tables[target_pool]->pages[0]);
  CHECK(second.tables[target_pool]->pages[1] != first.tables[target_pool]->pages[1]);
  world.cache.publish({9, log_of(prompt), {6, 6}}); // never heard of
  check(world.cache.ledger(target_pool), 13, 0, 3, 0);
}

TEST_CASE("what is asked to share nothing shares nothing") {
  PageManagerWorld world;
  const Tokens prompt{1, 2, 3, 4, 5, 6};
  world.reserve(1, prompt, 8);
  world.release(1, prompt);
  CHECK(world.cache.reserve({2, log_of(prompt), 0, 8}).cached[target_pool] == 0);
  CHECK(world.cache.reserve({3, nullptr, 6, 8}).cached[target_pool] == 0);
}

TEST_CASE("growing keeps the pages there are and the tables that steps hold") {
  PageManagerWorld world;
  const KvGrant first = world.reserve(1, {1, 2}, 4);
  const KvGrant more = world.cache.grow({1, 10, 10});
  REQUIRE(more.granted);
  CHECK(first.tables[target_pool]->pages.size() == 1);
  REQUIRE(more.tables[target_pool]->pages.size() == 3);
  CHECK(more.tables[target_pool]->pages[0] == first.tables[target_pool]->pages[0]);
  CHECK(more.tables[draft_pool]->pages[0] == first.tables[draft_pool]->pages[0]);
  const KvGrant enough = world.cache.grow({1, 12, 12});
  CHECK(enough.granted);
  CHECK(enough.tables[target_pool] == more.tables[target_pool]);
  CHECK(world.cache.grow({1, 1, 1}).tables[target_pool] == more.tables[target_pool]); // never less
  check(world.cache.ledger(draft_pool), 13, 0, 3, 0);
}

TEST_CASE("a grant that one pool cannot meet takes nothing from the other") {
  for (const bool draft_is_small : {false, true}) {
    PageManagerWorld world(draft_is_small ? 16 : 2, draft_is_small ? 2 : 16);
    REQUIRE(world.reserve(1, {1}, 4).granted);
    const KvGrant refused = world.reserve(2, {1}, 8);
    CHECK_FALSE(refused.granted);
    CHECK(refused.sequence == 2);
    CHECK(refused.tables.empty());
    CHECK_FALSE(world.cache.grow({1, 16, 16}).granted);
    for (const Pool pool : both_pools)
      CHECK(world.cache.ledger(pool).used == 1);
    CHECK(world.cache.grow({1, 8, 8}).granted);
    world.release(1);
    CHECK(world.cache.ledger(target_pool).free == (draft_is_small ? 16 : 2));
    CHECK(world.cache.ledger(draft_pool).free == (draft_is_small ? 2 : 16));
  }
}

TEST_CASE("prefixes make room when a sequence wants their pages") {
  PageManagerWorld world(4, 4);
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8};
  world.reserve(1, prompt, 8);
  world.release(1, prompt);
  check(world.cache.ledger(target_pool), 2, 2, 0, 0);
  REQUIRE(world.reserve(2, {9}, 12).granted);
  check(world.cache.ledger(target_pool), 0, 1, 3, 0);
  check(world.cache.ledger(draft_pool), 0, 1, 3, 0);
  REQUIRE(world.cache.grow({2, 16, 16}).granted);
  check(world.cache.ledger(target_pool), 0, 0, 4, 0);
}

TEST_CASE("a grant that cannot succeed evicts nothing") {
  PageManagerWorld world(4, 4);
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8};
  world.reserve(1, prompt, 8);
  world.release(1, prompt);
  const KvGrant held = world.reserve(2, {9}, 4);
  CHECK_FALSE(world.reserve(3, {8}, 16).granted);
  check(world.cache.ledger(target_pool), 1, 2, 1, 0);
  check(world.cache.ledger(draft_pool), 1, 2, 1, 0);
}

TEST_CASE("pages that are shared with the asker are not evicted for it") {
  PageManagerWorld world(4, 4);
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8};
  world.reserve(1, prompt, 8);
  world.release(1, prompt);
  const KvGrant grant = world.reserve(2, {1, 2, 3, 4, 5, 6, 7, 8, 9}, 16);
  REQUIRE(grant.granted);
  CHECK(grant.cached[target_pool] == 8);
  const Ids& ids = grant.tables[target_pool]->ids;
  CHECK(std::set(ids.begin(), ids.end()).size() == 4);
  CHECK_FALSE(world.cache.grow({2, 17, 17}).granted);
}

TEST_CASE("the draft's pages make room without the target's") {
  PageManagerWorld world(8, 3);
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8};
  world.reserve(1, prompt, 8);
  world.release(1, prompt);
  REQUIRE(world.reserve(2, {9}, 8).granted);
  check(world.cache.ledger(target_pool), 4, 2, 2, 0);
  check(world.cache.ledger(draft_pool), 0, 1, 2, 0);
}

TEST_CASE("what a step holds is in quarantine until the step has retired") {
  PageManagerWorld world(4, 4);
  std::optional<KvGrant> step = world.reserve(1, {1}, 12);
  world.release(1);
  check(world.cache.ledger(target_pool), 1, 0, 0, 3);
  CHECK_FALSE(world.reserve(2, {1}, 8).granted);
  step.reset();
  check(world.cache.ledger(target_pool), 4, 0, 0, 0);
  CHECK(world.reserve(2, {1}, 8).granted);
}

TEST_CASE("a page that a step and the prefix cache hold is not evicted") {
  PageManagerWorld world(2, 2);
  const Tokens prompt{1, 2, 3, 4};
  std::optional<KvGrant> step = world.reserve(1, prompt, 4);
  world.release(1, prompt);
  check(world.cache.ledger(target_pool), 1, 1, 0, 0);
  CHECK_FALSE(world.reserve(2, {9}, 8).granted);
  step.reset();
  CHECK(world.reserve(2, {9}, 8).granted);
}

TEST_CASE("a recomputed sequence loses its old pages first") {
  PageManagerWorld world(4, 4);
  CHECK(world.reserve(1, {1}, 16).granted);
  CHECK(world.reserve(1, {1}, 16).granted);
  check(world.cache.ledger(target_pool), 0, 0, 4, 0);
  CHECK_FALSE(world.reserve(1, {1}, 17).granted);
  check(world.cache.ledger(target_pool), 4, 0, 0, 0);
  CHECK_FALSE(world.cache.grow({1, 4, 4}).granted); // it has none now
}

TEST_CASE("releases of unknown sequences, and repeated ones, are harmless") {
  PageManagerWorld world;
  world.release(7, {1, 2, 3, 4, 5});
  world.reserve(1, {1}, 8);
  world.release(1);
  world.release(1, {1, 2, 3, 4, 5});
  world.cache.release({1, nullptr, {4, 4}});
  CHECK_FALSE(world.cache.grow({1, 8, 8}).granted);
  check(world.cache.ledger(target_pool), 16, 0, 0, 0);
}

TEST_CASE("claims beyond the log or the table keep no page") {
  PageManagerWorld world;
  world.reserve(1, {1, 2, 3, 4, 5}, 8);
  world.cache.publish({1, log_of({1, 2, 3, 4, 5}), {99, 99}});
  world.cache.publish({1, log_of({1, 2, 3, 4, 5}), {-1, -1}});
  world.cache.publish({1, nullptr, {5, 5}});
  world.release(1);
  check(world.cache.ledger(target_pool), 15, 1, 0, 0);
  world.reserve(2, {9}, 4);
  world.release(2, {9, 9, 9, 9, 9, 9, 9, 9});
  check(world.cache.ledger(target_pool), 14, 2, 0, 0);
}

TEST_CASE("without a draft model there is one pool") {
  const auto pool = make_pool(4, PageWorld::page_tokens);
  PageManager cache({.pools = {{.pages = pool}}, .telemetry = std::make_shared<base::Telemetry>()});
  const Tokens prompt{1, 2, 3, 4, 5};
  {
    const KvGrant grant = cache.reserve({1, log_of(prompt), 5, 8});
    REQUIRE(grant.granted);
    CHECK(grant.tables.size() == 1);
  }
  cache.release({1, log_of(prompt), {5}});
  CHECK(cache.reserve({2, log_of(prompt), 5, 16}).cached[target_pool] == 4);
  CHECK_FALSE(cache.reserve({3, log_of(prompt), 5, 16}).granted);
  check(cache.ledger(target_pool), 0, 0, 4, 0);
}

TEST_CASE("the target's pages behind its window go, the draft's stay") {
  PageManagerWorld world(16, 16, 6);
  const Tokens tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const KvGrant grant = world.reserve(1, tokens, 16);
  REQUIRE(grant.granted);
  const KvGrant grown = world.cache.grow({1, 20, 20, 13}); // the row at 13 sees 8 to 13
  REQUIRE(grown.granted);
  CHECK(grown.tables[target_pool]->capacity() == 20);
  for (std::size_t page = 0; page < 5; ++page) {
    CHECK((grown.tables[target_pool]->pages[page] != nullptr) == (page >= 2));
    CHECK(grown.tables[draft_pool]->pages[page] != nullptr);
  }
  check(world.cache.ledger(target_pool), 11, 0, 3, 2); // the old table still names what went
  check(world.cache.ledger(draft_pool), 11, 0, 5, 0);
}

TEST_CASE("what lay behind a window serves others as long as it was kept before it went") {
  PageManagerWorld world(16, 16, 6);
  const Tokens tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  world.reserve(1, tokens, 16);
  SUBCASE("kept") {
    world.cache.publish({1, log_of(tokens), {12, 12}});
    world.cache.grow({1, 16, 16, 12});
    world.release(1, tokens);
    const KvGrant again = world.reserve(2, tokens, 16);
    CHECK(again.cached[target_pool] == 12);
    CHECK(again.tables[target_pool]->pages[0] ==
          nullptr); // not even named: the row at 12 sees 7 to 12
    CHECK(again.tables[target_pool]->pages[1] != nullptr);
  }
  SUBCASE("let go of") {
    world.cache.grow({1, 16, 16, 12});
    world.release(1, tokens);
    CHECK(world.reserve(2, tokens, 16).cached[target_pool] == 0);
    world.release(2);
    check(world.cache.ledger(target_pool), 16, 0, 0, 0);
  }
}

TEST_CASE("where attention has a window a reservation may cover less") {
  PageManagerWorld world(16, 16, 6);
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8, 9};
  world.reserve(1, prompt, 9);
  world.release(1, prompt);
  const KvGrant grant = world.cache.reserve({2, log_of(prompt), 9, 40, 4});
  REQUIRE(grant.granted);
  CHECK(grant.cached[target_pool] == 8);
  CHECK(grant.tables[target_pool]->capacity() == 12); // 4 past what was found
  CHECK(grant.tables[draft_pool]->capacity() == 40);
}

TEST_CASE("there may be more pools than two, and each falls behind and makes room by itself") {
  PerPool<PageManager::PoolConfig> pools;
  for (const std::size_t pages : {8, 8, 3})
    pools.push_back({make_pool(pages, PageWorld::page_tokens)});
  PageManager cache({pools, std::make_shared<base::Telemetry>()});
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8, 9};
  REQUIRE(cache.reserve({1, log_of(prompt), 9, 9}).granted);
  cache.release({1, log_of(prompt), {8, 4, 8}});
  {
    const KvGrant again = cache.reserve({2, log_of(prompt), 9, 12});
    REQUIRE(again.granted);
    CHECK(again.cached == PerPool<int>{8, 4, 8});
    CHECK(again.tables.size() == 3);
  }
  cache.release({2, nullptr, {}});
  REQUIRE(cache.reserve({3, log_of({9}), 1, 8}).granted); // of the third pool a page has to go
  check(cache.ledger(0), 4, 2, 2, 0);
  check(cache.ledger(1), 5, 1, 2, 0);
  check(cache.ledger(2), 0, 1, 2, 0);
  CHECK_FALSE(cache.grow({3, 16, 16}).granted);
}
