#include "tests/actors/kv_world.hpp"
#include "tests/support/simulation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <set>

using namespace paceline;
using namespace paceline::actors;
using namespace paceline::messages;
using namespace paceline::testing;

namespace {

constexpr int page_tokens = KvWorld::page_tokens;
using World = KvWorld;

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
  World world;
  const KvGrant grant = world.reserve(1, {1, 2, 3, 4, 5}, 9);
  REQUIRE(grant.granted);
  CHECK(grant.sequence == 1);
  CHECK(grant.target->capacity() == 12);
  CHECK(grant.draft->capacity() == 12);
  CHECK(grant.cached_target == 0);
  CHECK(grant.cached_draft == 0);
  check(world.cache.ledger(Pool::target), 13, 0, 3, 0);
  check(world.cache.ledger(Pool::draft), 13, 0, 3, 0);
}

TEST_CASE("a prefix comes back together with the draft's, without its last token") {
  World world;
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8};
  const Ids target = world.reserve(1, prompt, 8).target->ids;
  const Ids draft = world.reserve(1, prompt, 8).draft->ids;
  world.release(1, prompt);
  check(world.cache.ledger(Pool::target), 14, 2, 0, 0);

  const KvGrant again = world.reserve(2, prompt, 8);
  REQUIRE(again.granted);
  CHECK(again.cached_target == 4);
  CHECK(again.cached_draft == 4);
  const KvGrant longer = world.reserve(3, {1, 2, 3, 4, 5, 6, 7, 8, 9}, 12);
  REQUIRE(longer.granted);
  CHECK(longer.cached_target == 8);
  CHECK(longer.cached_draft == 8);
  CHECK(longer.target->ids[0] == again.target->ids[0]);
  check(world.cache.ledger(Pool::target), 12, 0, 4, 0); // 2 shared, 1 + 1 fresh
}

TEST_CASE("a draft that was behind comes back as far as it was right") {
  World world;
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8, 9};
  world.reserve(1, prompt, 9);
  world.cache.release({1, log_of(prompt), 8, 5});
  const KvGrant grant = world.reserve(2, prompt, 9);
  CHECK(grant.cached_target == 8);
  CHECK(grant.cached_draft == 4);
  check(world.cache.ledger(Pool::target), 13, 0, 3, 0);
  check(world.cache.ledger(Pool::draft), 13, 0, 3, 0);
}

TEST_CASE("a running sequence's prompt can be shared while it goes on") {
  World world;
  const Tokens prompt{1, 2, 3, 4, 5, 6};
  const KvGrant first = world.reserve(1, prompt, 8);
  world.cache.publish({1, log_of(prompt), 6, 6});
  const KvGrant second = world.reserve(2, prompt, 8);
  CHECK(second.cached_target == 4);
  CHECK(second.target->pages[0] == first.target->pages[0]);
  CHECK(second.target->pages[1] != first.target->pages[1]);
  world.cache.publish({9, log_of(prompt), 6, 6}); // never heard of
  check(world.cache.ledger(Pool::target), 13, 0, 3, 0);
}

TEST_CASE("what is asked to share nothing shares nothing") {
  World world;
  const Tokens prompt{1, 2, 3, 4, 5, 6};
  world.reserve(1, prompt, 8);
  world.release(1, prompt);
  CHECK(world.cache.reserve({2, log_of(prompt), 0, 8}).cached_target == 0);
  CHECK(world.cache.reserve({3, nullptr, 6, 8}).cached_target == 0);
}

TEST_CASE("growing keeps the pages there are and the tables that steps hold") {
  World world;
  const KvGrant first = world.reserve(1, {1, 2}, 4);
  const KvGrant more = world.cache.grow({1, {10, 10}});
  REQUIRE(more.granted);
  CHECK(first.target->pages.size() == 1);
  REQUIRE(more.target->pages.size() == 3);
  CHECK(more.target->pages[0] == first.target->pages[0]);
  CHECK(more.draft->pages[0] == first.draft->pages[0]);
  const KvGrant enough = world.cache.grow({1, {12, 12}});
  CHECK(enough.granted);
  CHECK(enough.target == more.target);
  CHECK(world.cache.grow({1, {1, 1}}).target == more.target); // never less
  check(world.cache.ledger(Pool::draft), 13, 0, 3, 0);
}

TEST_CASE("a grant that one pool cannot meet takes nothing from the other") {
  for (const bool draft_is_small : {false, true}) {
    World world(draft_is_small ? 16 : 2, draft_is_small ? 2 : 16);
    REQUIRE(world.reserve(1, {1}, 4).granted);
    const KvGrant refused = world.reserve(2, {1}, 8);
    CHECK_FALSE(refused.granted);
    CHECK(refused.sequence == 2);
    CHECK(refused.target == nullptr);
    CHECK(refused.draft == nullptr);
    CHECK_FALSE(world.cache.grow({1, {16, 16}}).granted);
    for (const Pool pool : both_pools)
      CHECK(world.cache.ledger(pool).used == 1);
    CHECK(world.cache.grow({1, {8, 8}}).granted);
    world.release(1);
    CHECK(world.cache.ledger(Pool::target).free == (draft_is_small ? 16 : 2));
    CHECK(world.cache.ledger(Pool::draft).free == (draft_is_small ? 2 : 16));
  }
}

TEST_CASE("prefixes make room when a sequence wants their pages") {
  World world(4, 4);
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8};
  world.reserve(1, prompt, 8);
  world.release(1, prompt);
  check(world.cache.ledger(Pool::target), 2, 2, 0, 0);
  REQUIRE(world.reserve(2, {9}, 12).granted);
  check(world.cache.ledger(Pool::target), 0, 1, 3, 0);
  check(world.cache.ledger(Pool::draft), 0, 1, 3, 0);
  REQUIRE(world.cache.grow({2, {16, 16}}).granted);
  check(world.cache.ledger(Pool::target), 0, 0, 4, 0);
}

TEST_CASE("a grant that cannot succeed evicts nothing") {
  World world(4, 4);
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8};
  world.reserve(1, prompt, 8);
  world.release(1, prompt);
  const KvGrant held = world.reserve(2, {9}, 4);
  CHECK_FALSE(world.reserve(3, {8}, 16).granted);
  check(world.cache.ledger(Pool::target), 1, 2, 1, 0);
  check(world.cache.ledger(Pool::draft), 1, 2, 1, 0);
}

TEST_CASE("pages that are shared with the asker are not evicted for it") {
  World world(4, 4);
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8};
  world.reserve(1, prompt, 8);
  world.release(1, prompt);
  const KvGrant grant = world.reserve(2, {1, 2, 3, 4, 5, 6, 7, 8, 9}, 16);
  REQUIRE(grant.granted);
  CHECK(grant.cached_target == 8);
  const Ids& ids = grant.target->ids;
  CHECK(std::set(ids.begin(), ids.end()).size() == 4);
  CHECK_FALSE(world.cache.grow({2, {17, 17}}).granted);
}

TEST_CASE("the draft's pages make room without the target's") {
  World world(8, 3);
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8};
  world.reserve(1, prompt, 8);
  world.release(1, prompt);
  REQUIRE(world.reserve(2, {9}, 8).granted);
  check(world.cache.ledger(Pool::target), 4, 2, 2, 0);
  check(world.cache.ledger(Pool::draft), 0, 1, 2, 0);
}

TEST_CASE("what a step holds is in quarantine until the step has retired") {
  World world(4, 4);
  std::optional<KvGrant> step = world.reserve(1, {1}, 12);
  world.release(1);
  check(world.cache.ledger(Pool::target), 1, 0, 0, 3);
  CHECK_FALSE(world.reserve(2, {1}, 8).granted);
  step.reset();
  check(world.cache.ledger(Pool::target), 4, 0, 0, 0);
  CHECK(world.reserve(2, {1}, 8).granted);
}

TEST_CASE("a page that a step and the prefix cache hold is not evicted") {
  World world(2, 2);
  const Tokens prompt{1, 2, 3, 4};
  std::optional<KvGrant> step = world.reserve(1, prompt, 4);
  world.release(1, prompt);
  check(world.cache.ledger(Pool::target), 1, 1, 0, 0);
  CHECK_FALSE(world.reserve(2, {9}, 8).granted);
  step.reset();
  CHECK(world.reserve(2, {9}, 8).granted);
}

TEST_CASE("a rebuilt sequence loses its old pages first") {
  World world(4, 4);
  CHECK(world.reserve(1, {1}, 16).granted);
  CHECK(world.reserve(1, {1}, 16).granted);
  check(world.cache.ledger(Pool::target), 0, 0, 4, 0);
  CHECK_FALSE(world.reserve(1, {1}, 17).granted);
  check(world.cache.ledger(Pool::target), 4, 0, 0, 0);
  CHECK_FALSE(world.cache.grow({1, {4, 4}}).granted); // it has none now
}

TEST_CASE("releases of unknown sequences, and repeated ones, are harmless") {
  World world;
  world.release(7, {1, 2, 3, 4, 5});
  world.reserve(1, {1}, 8);
  world.release(1);
  world.release(1, {1, 2, 3, 4, 5});
  world.cache.release({1, nullptr, 4, 4});
  CHECK_FALSE(world.cache.grow({1, {8, 8}}).granted);
  check(world.cache.ledger(Pool::target), 16, 0, 0, 0);
}

TEST_CASE("claims beyond the log or the table keep no page") {
  World world;
  world.reserve(1, {1, 2, 3, 4, 5}, 8);
  world.cache.publish({1, log_of({1, 2, 3, 4, 5}), 99, 99});
  world.cache.publish({1, log_of({1, 2, 3, 4, 5}), -1, -1});
  world.cache.publish({1, nullptr, 5, 5});
  world.release(1);
  check(world.cache.ledger(Pool::target), 15, 1, 0, 0);
  world.reserve(2, {9}, 4);
  world.release(2, {9, 9, 9, 9, 9, 9, 9, 9});
  check(world.cache.ledger(Pool::target), 14, 2, 0, 0);
}

TEST_CASE("without a draft model there is one pool") {
  const auto pool = make_pool(4, page_tokens);
  KvCache cache(nullptr, pool, nullptr, 0, std::make_shared<Telemetry>());
  const Tokens prompt{1, 2, 3, 4, 5};
  {
    const KvGrant grant = cache.reserve({1, log_of(prompt), 5, 8});
    REQUIRE(grant.granted);
    CHECK(grant.draft == nullptr);
  }
  cache.release({1, log_of(prompt), 5, 5});
  CHECK(cache.reserve({2, log_of(prompt), 5, 16}).cached_target == 4);
  CHECK_FALSE(cache.reserve({3, log_of(prompt), 5, 16}).granted);
  check(cache.ledger(Pool::target), 0, 0, 4, 0);
}

// As an actor.
namespace {

struct ActorWorld {
  explicit ActorWorld(std::uint64_t seed) : simulation(seed) { start(); }
  void start() { handle = simulation.spawn<KvCache>(pools.target, pools.draft, 0, telemetry); }
  std::optional<KvGrant> reserve(SequenceId id, const Tokens& tokens, int capacity) {
    return simulation.ask<KvGrant>(handle,
                                   KvReserve{id, log_of(tokens), int(tokens.size()), capacity});
  }

  PerPool<std::shared_ptr<gpu::KvPool>> pools{make_pool(8, page_tokens), make_pool(8, page_tokens)};
  std::shared_ptr<Telemetry> telemetry = std::make_shared<Telemetry>();
  Simulation simulation;
  KvCacheActor handle;
};

} // namespace

TEST_CASE("the actor answers, counts its messages and shows both pools' pages") {
  ActorWorld world(1);
  const Tokens prompt{1, 2, 3, 4, 5};
  auto grant = world.reserve(1, prompt, 8);
  REQUIRE(grant);
  CHECK(grant->granted);
  CHECK(world.telemetry->kv_pages_total == 16);
  CHECK(world.telemetry->kv_pages_used == 4);
  CHECK(world.telemetry->messages == 1);

  grant = world.simulation.ask<KvGrant>(world.handle, KvGrow{1, {12, 12}});
  REQUIRE(grant);
  CHECK(grant->target->capacity() == 12);
  CHECK(world.telemetry->kv_pages_used == 6);

  world.simulation.tell(world.handle, KvPublish{1, log_of(prompt), 5, 5});
  world.simulation.tell(world.handle, KvRelease{1, log_of(prompt), 5, 5});
  world.simulation.run();
  CHECK(world.telemetry->messages == 4);
  CHECK(world.telemetry->kv_pages_used == 0);
  CHECK(world.telemetry->kv_pages_quarantined == 4); // as if `grant` were a step; one is cached
  grant.reset();
  CHECK(world.simulation.ask<Pong>(world.handle, Ping{}));
  CHECK(world.telemetry->kv_pages_quarantined == 0);
  CHECK(world.telemetry->messages == 5);
  CHECK(world.reserve(2, prompt, 8)->cached_target == 4);
}

TEST_CASE("messages in any order leave no page behind once all is released") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    ActorWorld world(seed);
    std::vector<std::function<void()>> sends;
    const auto send = [&](auto message) {
      sends.push_back([&world, message] { world.simulation.tell(world.handle, message); });
    };
    for (SequenceId id = 0; id < 6; ++id) {
      const auto log = log_of({1, 2, 3, 4, TokenId(id)});
      send(KvReserve{id, log, 5, 8});
      send(KvGrow{id, {12, 12}});
      send(KvPublish{id, log, 5, 4});
      send(KvRelease{id, log, 5, 4});
    }
    std::shuffle(sends.begin(), sends.end(), std::mt19937_64(seed));
    for (const auto& send_one : sends)
      send_one();
    for (SequenceId id = 0; id < 6; ++id)
      world.simulation.tell(world.handle, KvRelease{id, nullptr, 0, 0});
    world.simulation.run();
    CHECK(world.telemetry->messages == 30);
    CHECK(world.telemetry->kv_pages_used == 0);
    CHECK(world.telemetry->kv_pages_quarantined == 0);
    CHECK(world.reserve(9, {9}, 32)->granted);
  }
}

TEST_CASE("after a restart the predecessor's pages come back as they are dropped") {
  ActorWorld world(1);
  std::optional<KvGrant> old = world.reserve(1, {1, 2, 3, 4, 5}, 24);
  REQUIRE(old->granted);
  world.simulation.kill(world.handle);
  world.simulation.run();
  CHECK_FALSE(world.reserve(2, {1}, 4)); // it is gone
  CHECK(world.pools.target->ledger().out == 6);

  world.start();
  world.simulation.tell(world.handle, KvRelease{1, log_of({1, 2, 3, 4, 5}), 5, 5});
  CHECK_FALSE(world.reserve(1, {1}, 24)->granted);
  CHECK(world.telemetry->kv_pages_quarantined == 12);
  old.reset();
  CHECK(world.reserve(1, {1}, 24)->granted);
  CHECK(world.telemetry->kv_pages_quarantined == 0);
}

TEST_CASE("the target's pages behind its window go, the draft's stay") {
  World world(16, 16, 6);
  const Tokens tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const KvGrant grant = world.reserve(1, tokens, 16);
  REQUIRE(grant.granted);
  const KvGrant grown = world.cache.grow({1, {20, 20}, 13}); // the row at 13 sees 8 to 13
  REQUIRE(grown.granted);
  CHECK(grown.target->capacity() == 20);
  for (std::size_t page = 0; page < 5; ++page) {
    CHECK((grown.target->pages[page] != nullptr) == (page >= 2));
    CHECK(grown.draft->pages[page] != nullptr);
  }
  check(world.cache.ledger(Pool::target), 11, 0, 3, 2); // the old table still names what went
  check(world.cache.ledger(Pool::draft), 11, 0, 5, 0);
}

TEST_CASE("what lay behind a window serves others as long as it was kept before it went") {
  World world(16, 16, 6);
  const Tokens tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  world.reserve(1, tokens, 16);
  SUBCASE("kept") {
    world.cache.publish({1, log_of(tokens), 12, 12});
    world.cache.grow({1, {16, 16}, 12});
    world.release(1, tokens);
    const KvGrant again = world.reserve(2, tokens, 16);
    CHECK(again.cached_target == 12);
    CHECK(again.target->pages[0] == nullptr); // not even named: the row at 12 sees 7 to 12
    CHECK(again.target->pages[1] != nullptr);
  }
  SUBCASE("let go of") {
    world.cache.grow({1, {16, 16}, 12});
    world.release(1, tokens);
    CHECK(world.reserve(2, tokens, 16).cached_target == 0);
    world.release(2);
    check(world.cache.ledger(Pool::target), 16, 0, 0, 0);
  }
}

TEST_CASE("a reservation may cover less of the target's pages than of the draft's") {
  World world;
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8, 9};
  world.reserve(1, prompt, 9);
  world.release(1, prompt);
  const KvGrant grant = world.cache.reserve({2, log_of(prompt), 9, 40, 4});
  REQUIRE(grant.granted);
  CHECK(grant.cached_target == 8);
  CHECK(grant.target->capacity() == 12); // 4 past what was found
  CHECK(grant.draft->capacity() == 40);
}
