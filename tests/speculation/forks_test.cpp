// Which forks the draft's lane writes, and what is left of them behind a verdict.
#include "tests/speculation/planner_world.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace paceline;
using namespace paceline::speculation;
using namespace paceline::testing;

namespace {

/// A sequence whose chain has two forks at most, and which the draft has just heard of.
Frontier with_forks(PlannerWorld& world) {
  Frontier at = world.frontier(1, {1, 2, 3});
  at.forking.rows = 2;
  at.forking.window = 2;
  world.planner.take({at});
  return at;
}

/// That these are likely to stand where a token is rejected, the likeliest first.
sampling::Guesses guesses_of(std::initializer_list<TokenId> tokens) {
  sampling::Guesses guesses;
  for (const TokenId token : tokens)
    guesses.tokens[std::size_t(guesses.count++)] = token;
  return guesses;
}

} // namespace

TEST_CASE("forks are written for the likeliest rejections, behind a window that is whole") {
  PlannerWorld world(1000, 2);
  const Frontier at = with_forks(world);
  for (int i = 0; i < 2; ++i) {
    DraftPass pass = world.planner.plan();
    CHECK(pass.fork_rows == 0);
    PlannerWorld::compute(pass, 5, guesses_of({7, 8}));
  }
  const DraftPass pass = world.planner.plan();
  CHECK(pass.fork_rows == 2);
  REQUIRE(pass.parts.size() == 3);
  const DraftRows& fork = pass.parts[1];
  REQUIRE(fork.fork);
  CHECK(fork.fork->position == 3);
  CHECK(fork.tokens == Tokens{7});
  CHECK(fork.draws == 4);
  CHECK(at.chain->fork(3, 7) == fork.fork->chain);
}

TEST_CASE("forks of a chain that is over give their pages back when somebody looks for some") {
  PlannerWorld world(1000, 2);
  const Frontier at = with_forks(world);
  const std::size_t free = world.pool->ledger().free;
  for (int i = 0; i < 3; ++i) {
    DraftPass pass = world.planner.plan();
    PlannerWorld::compute(pass, 5, guesses_of({7, 8}));
  }
  REQUIRE(world.pool->ledger().free < free);
  world.planner.take({});
  CHECK(world.pool->ledger().free < free); // they may still come true
  at.chain->close();                       // and nobody begins another one
  world.planner.take({});
  CHECK(world.pool->ledger().free == free);
}

TEST_CASE("behind a hit forks of windows in flight go on, and those that it settled do not") {
  PlannerWorld world(1000, 6);
  Frontier at = world.frontier(1, {1, 2, 3}, 1, 6);
  at.forking = {6, 4, {}, 4}; // the window's outcomes end at 4; those of two more windows at 8
  world.planner.take({at});
  for (int i = 0; i < 7; ++i) {
    DraftPass pass = world.planner.plan();
    PlannerWorld::compute(pass, 5, guesses_of({7}));
  }
  const auto begun = at.chain->fork(6, 7);
  REQUIRE(begun);
  REQUIRE(begun->next() >= 0);

  Frontier next = at; // all of the window was accepted, and the token behind it
  next.epoch = {1, ++world.epochs};
  next.tokens = {5, 5};
  at.chain->extend(6, 12);
  at.chain->drop_forks(5);
  const std::size_t pages = world.pool->ledger().free;
  world.planner.take({next});
  CHECK(world.pool->ledger().free > pages);
  bool goes_on = false;
  for (const DraftRows& rows : world.planner.plan().parts) {
    if (!rows.fork)
      continue;
    CHECK(rows.fork->position >= 5);
    CHECK(at.chain->fork(rows.fork->position, 7) == rows.fork->chain); // none is written twice
    goes_on |= rows.fork->chain == begun;
  }
  CHECK(goes_on);
}

TEST_CASE(
    "forks go on beside a few windows that are late, and give way to as many as have theirs") {
  PlannerWorld world(1000, 8);
  std::vector<Frontier> batch;
  for (SequenceId id = 1; id <= 3; ++id) {
    batch.push_back(world.frontier(id, {1, 2, 3}));
    batch.back().forking.rows = 2;
    batch.back().forking.window = 2;
  }
  world.planner.take({batch[0], batch[1]});
  for (int i = 0; i < 2; ++i) {
    DraftPass pass = world.planner.plan();
    PlannerWorld::compute(pass, 5, guesses_of({7, 8}));
  }
  world.planner.take({batch[2]});
  DraftPass one_late = world.planner.plan();
  CHECK(one_late.hurries);
  CHECK(one_late.fork_rows == 4);
  batch[1].chain->close();
  const DraftPass as_many = world.planner.plan();
  CHECK(as_many.hurries);
  CHECK(as_many.fork_rows == 0);
}
