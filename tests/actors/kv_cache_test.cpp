// The KV-cache manager as an actor; its logic is tested in tests/scheduling.
#include "actors/kv_cache.hpp"
#include "tests/scheduling/page_world.hpp"
#include "tests/support/simulation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <vector>

using namespace paceline;
using namespace paceline::scheduling;
using namespace paceline::testing;

namespace {

using speculation::SequenceId;

constexpr int page_tokens = PageWorld::page_tokens;

struct ActorWorld {
  explicit ActorWorld(std::uint64_t seed) : simulation(seed) { start(); }
  void start() {
    handle = simulation.spawn<actors::KvCache>(PageManager::Config{pools, telemetry});
  }
  std::optional<KvGrant> reserve(SequenceId id, const Tokens& tokens, int capacity) {
    return simulation.ask<KvGrant>(handle,
                                   KvReserve{id, log_of(tokens), int(tokens.size()), capacity});
  }

  PerPool<PageManager::PoolConfig> pools{{make_pool(8, page_tokens)}, {make_pool(8, page_tokens)}};
  std::shared_ptr<base::Telemetry> telemetry = std::make_shared<base::Telemetry>();
  Simulation simulation;
  messages::KvCacheActor handle;
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

  grant = world.simulation.ask<KvGrant>(world.handle, KvGrow{1, 12, 12});
  REQUIRE(grant);
  CHECK(grant->tables[target_pool]->capacity() == 12);
  CHECK(world.telemetry->kv_pages_used == 6);

  world.simulation.tell(world.handle, KvPublish{1, log_of(prompt), {5, 5}});
  world.simulation.tell(world.handle, KvRelease{1, log_of(prompt), {5, 5}});
  world.simulation.run();
  CHECK(world.telemetry->messages == 4);
  CHECK(world.telemetry->kv_pages_used == 0);
  CHECK(world.telemetry->kv_pages_quarantined == 4); // as if `grant` were a step; one is cached
  grant.reset();
  CHECK(world.simulation.ask<messages::Pong>(world.handle, messages::Ping{}));
  CHECK(world.telemetry->kv_pages_quarantined == 0);
  CHECK(world.telemetry->messages == 5);
  CHECK(world.reserve(2, prompt, 8)->cached[target_pool] == 4);
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
      send(KvGrow{id, 12, 12});
      send(KvPublish{id, log, {5, 4}});
      send(KvRelease{id, log, {5, 4}});
    }
    std::shuffle(sends.begin(), sends.end(), std::mt19937_64(seed));
    for (const auto& send_one : sends)
      send_one();
    for (SequenceId id = 0; id < 6; ++id)
      world.simulation.tell(world.handle, KvRelease{id, nullptr, {0, 0}});
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
  CHECK(world.pools[target_pool].pages->ledger().out == 6);

  world.start();
  world.simulation.tell(world.handle, KvRelease{1, log_of({1, 2, 3, 4, 5}), {5, 5}});
  CHECK_FALSE(world.reserve(1, {1}, 24)->granted);
  CHECK(world.telemetry->kv_pages_quarantined == 12);
  old.reset();
  CHECK(world.reserve(1, {1}, 24)->granted);
  CHECK(world.telemetry->kv_pages_quarantined == 0);
}
