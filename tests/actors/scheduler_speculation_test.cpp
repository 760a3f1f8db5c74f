// What the scheduler does with what was drafted.
#include "actors/limits.hpp"
#include "tests/actors/scheduler_world.hpp"

using namespace paceline;
using namespace paceline::actors;
using namespace paceline::messages;
using namespace paceline::testing;
using World = SchedulerWorld;

TEST_CASE("what was bound is judged, a miss begins the next chain, a hit goes on with it") {
  World world(drafting(SpeculationMode::overlap, 2));
  world.admit(1, {1, 2, 3});
  Batch batch = world.batch();
  const ChainRef first = batch.entries[0].next_chain;
  REQUIRE(first);
  CHECK(batch.entries[0].chain == nullptr);
  CHECK(batch.entries[0].next_window == 2);
  CHECK(batch.entries[0].next_lookahead == 3);
  first->begin(4, 6, 9); // the verification's part, and the draft's
  draft_up_to(*first, 7);
  world.decode(batch, {7});

  batch = world.batch();
  CHECK(batch.entries[0].chain == first);
  CHECK(batch.entries[0].window == 2);
  CHECK(batch.entries[0].whole);
  CHECK(batch.entries[0].judge_lookahead);
  Verdict hit = World::verdict(batch.entries[0], {5, 5, 5});
  hit.judged = hit.accepted = 3;
  hit.hit = Hit::chain;
  hit.next = batch.entries[0].chain;
  hit.had_lookahead = true;
  first->extend(9, 12);
  draft_up_to(*first, 9);
  world.answer(batch, {hit});

  batch = world.batch();
  CHECK(batch.entries[0].chain == first);
  CHECK_FALSE(first->closed());
  const ChainRef second = batch.entries[0].next_chain;
  Verdict miss = World::verdict(batch.entries[0], {5, 9});
  miss.judged = 2;
  miss.accepted = 1;
  second->begin(9, 11, 14);
  draft_up_to(*second, 11);
  world.answer(batch, {miss});

  batch = world.batch();
  CHECK(batch.entries[0].chain == second);
  CHECK(first->closed());
}

TEST_CASE("tokens that were drafted under a verification say so") {
  World world(drafting(SpeculationMode::overlap, 1));
  const ChainRef chain = world.begin_drafting(3, 5, 4);
  CHECK(world.commits().sources == std::vector{TokenSource::target});
  Batch batch = world.batch();
  Verdict hit = World::verdict(batch.entries[0], {5, 5});
  hit.sources = {TokenSource::draft, TokenSource::lookahead};
  hit.judged = hit.accepted = 2;
  hit.hit = Hit::chain;
  hit.next = batch.entries[0].chain;
  hit.had_lookahead = true;
  chain->extend(6, 8);
  draft_up_to(*chain, 5); // before the verdict is known here
  world.answer(batch, {hit});
  CHECK(world.commits().sources == hit.sources);
  draft_up_to(*chain, 6); // behind it
  batch = world.batch();
  Verdict next = World::verdict(batch.entries[0], {5, 5, 6});
  next.sources = {TokenSource::draft, TokenSource::draft, TokenSource::target};
  next.judged = next.accepted = 2;
  world.answer(batch, {next});
  CHECK(world.commits().sources ==
        std::vector{TokenSource::lookahead, TokenSource::draft, TokenSource::target});
}

TEST_CASE("a window that comes too late is not waited for beyond the draft's patience") {
  World world(drafting(SpeculationMode::sync, 4));
  const auto begin = world.simulation.now();
  const ChainRef chain = world.begin_drafting(6, 6, 2);
  Batch batch = world.batch();
  CHECK(world.simulation.now() - begin == actors::limits::draft_patience_min);
  CHECK(batch.entries[0].window == 0);
  CHECK(batch.entries[0].chain == nullptr); // it is not waited for again
  CHECK(chain->closed());
}

TEST_CASE("a window is waited for, and its batch goes out the moment it is there") {
  World world(drafting(SpeculationMode::sync, 2));
  const ChainRef chain = world.begin_drafting(4, 4, 2);
  world.commits(); // the scheduler has done all it can, and waits
  const auto begin = world.simulation.now();
  CHECK(world.target->mail->empty());
  draft_up_to(*chain, 4);
  Batch batch = world.batch();
  CHECK(world.simulation.now() == begin);
  CHECK(batch.entries[0].window == 2);
}

TEST_CASE("a window never reaches beyond what the request may still say") {
  World world(drafting(SpeculationMode::sync, 8));
  world.admit(1, {1}, 4);
  Batch batch = world.batch();
  CHECK(batch.entries[0].next_window == 2); // one token comes now, one is the verdict's own
  const ChainRef chain = batch.entries[0].next_chain;
  chain->begin(2, 4, 4);
  draft_up_to(*chain, 4);
  world.decode(batch, {7});
  batch = world.batch();
  CHECK(batch.entries[0].window == 2);
  CHECK(batch.entries[0].next_window == 1); // should it accept nothing
}

TEST_CASE("a draft that lied is not asked again, and its request goes on") {
  World world(drafting(SpeculationMode::sync, 2));
  const ChainRef chain = world.begin_drafting(4, 4, 4);
  Batch batch = world.batch();
  Verdict lie = World::verdict(batch.entries[0], {8});
  lie.judged = 1;
  lie.draft_lied = true;
  world.answer(batch, {lie});
  batch = world.batch();
  CHECK(chain->closed());
  CHECK(batch.entries[0].chain == nullptr);
  CHECK(batch.entries[0].next_chain == nullptr);
}

TEST_CASE("without its draft a sequence goes on in plain decoding at once") {
  World world(drafting(SpeculationMode::sync, 2));
  const ChainRef chain = world.begin_drafting(4, 4, 2); // it would wait for the window
  world.commits();
  const auto begin = world.simulation.now();
  world.wire(false);
  Batch batch = world.batch();
  CHECK(world.simulation.now() == begin);
  CHECK(batch.entries[0].window == 0);
  CHECK(batch.entries[0].next_chain == nullptr);
}
