// States of recurrent targets: who has one, and which beginnings are shared with one.
#include "tests/scheduling/page_world.hpp"

#include <doctest/doctest.h>

#include <numeric>

using namespace paceline;
using namespace paceline::scheduling;
using namespace paceline::testing;

namespace {

/// Pages of 4 tokens, and states.
struct StatesWorld {
  explicit StatesWorld(std::size_t states)
      : pool(gpu::KvPool::create(device(), shape(), 64, states).value()),
        cache({.pools = {{pool}}, .telemetry = std::make_shared<base::Telemetry>()}) {}

  static gpu::KvShape shape() {
    gpu::KvShape shape{4, 1};
    shape.state_bytes = 64;
    return shape;
  }
  static gpu::Device& device() {
    static const auto opened =
        gpu::open_device("cpu", {.threads = 1, .time = std::make_shared<NoTime>(), .trace = {}})
            .value();
    return *opened;
  }

  KvGrant reserve(speculation::SequenceId id, const Tokens& tokens) {
    return cache.reserve({id, log_of(tokens), int(tokens.size()), int(tokens.size()) + 4});
  }
  void publish(speculation::SequenceId id, const Tokens& tokens, int valid) {
    cache.publish({id, log_of(tokens), {valid}});
  }
  void release(speculation::SequenceId id, const Tokens& tokens) {
    cache.release({id, log_of(tokens), {int(tokens.size())}});
  }

  std::shared_ptr<gpu::KvPool> pool;
  PageManager cache;
};

Tokens counted(int count, TokenId first = 0) {
  Tokens tokens(std::size_t(count), 0);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

const gpu::PageTable& table(const KvGrant& grant) {
  REQUIRE(grant.granted);
  return *grant.tables[target_pool];
}

} // namespace

TEST_CASE("a text goes on from the state where one that begins like it had its last whole page") {
  StatesWorld world(8);
  const Tokens text = counted(11);
  const KvGrant first = world.reserve(1, text);
  CHECK(first.cached[target_pool] == 0);
  CHECK(table(first).state);
  CHECK_FALSE(table(first).begin.state);
  CHECK(table(first).snapshot.position == 8);
  world.publish(1, text, 7); // The pass has not come to the snapshot.
  CHECK(world.reserve(2, text).cached[target_pool] == 0);
  world.publish(1, text, 11);
  const KvGrant second = world.reserve(2, counted(20));
  CHECK(second.cached[target_pool] == 8);
  CHECK(table(second).begin.state == table(first).snapshot.state);
  CHECK(table(second).begin.position == 8);
  CHECK(table(second).state != table(first).state);
  CHECK(table(second).snapshot.position == 16);
  const KvGrant same = world.reserve(3, text); // Nothing new is there to be kept.
  CHECK(same.cached[target_pool] == 8);
  CHECK_FALSE(table(same).snapshot.state);
  CHECK(world.reserve(4, counted(8)).cached[target_pool] == 0); // One token at least is fed.
}

TEST_CASE("pages without a state behind them are not shared") {
  StatesWorld world(8);
  world.reserve(1, counted(9));
  world.release(1, counted(30)); // It went on for long: whole pages, and one state.
  const KvGrant grant = world.reserve(2, counted(30));
  CHECK(grant.cached[target_pool] == 8);
  CHECK(table(grant).snapshot.position == 28);
}

TEST_CASE("a state stays while its table grows, and comes back empty with the last reference") {
  StatesWorld world(4);
  std::uint32_t number = 0;
  {
    const KvGrant grant = world.reserve(1, counted(5));
    const KvGrant grown = world.cache.grow({1, 40, 40, 5});
    CHECK(table(grown).state == table(grant).state);
    CHECK(table(grown).snapshot.state == table(grant).snapshot.state);
    number = table(grant).state->id;
    world.pool->held(number) = 5;
    world.release(1, {}); // A step may still hold the tables.
    CHECK(world.pool->ledger().states == 2);
  }
  CHECK(world.pool->ledger().states == 0);
  CHECK(world.pool->held(number) == 0);
}

TEST_CASE("sequences come before what is kept for others") {
  StatesWorld world(4);
  for (const TokenId text : {100, 200, 300}) { // Each leaves a state that is only kept.
    world.reserve(1, counted(9, text));
    world.release(1, counted(9, text));
  }
  CHECK(world.pool->ledger().states == 2); // Half of all.
  CHECK(world.reserve(5, counted(9, 300)).cached[target_pool] == 8);
  CHECK(world.reserve(5, counted(9, 100)).cached[target_pool] == 0); // It was there first.
  for (speculation::SequenceId id = 5; id <= 8; ++id)
    CHECK(world.reserve(id, counted(3, TokenId(1000 * id))).granted);
  CHECK(world.pool->ledger().free_states == 0);
  CHECK_FALSE(world.reserve(9, counted(3)).granted);
  world.release(5, {});
  const KvGrant grant = world.reserve(9, counted(3));
  CHECK(world.pool->held(table(grant).state->id) == 0);
}
