// A sequence's life at the scheduler's: admission, batches, faults, end.
#include "scheduling/limits.hpp"
#include "tests/scheduling/scheduler_world.hpp"

using namespace paceline;
using namespace paceline::scheduling;
using namespace paceline::speculation;
using namespace paceline::testing;
using SchedulerRig = SchedulerWorld;

TEST_CASE("a request is given pages, runs, commits, and gives its pages back at the end") {
  SchedulerRig world(plain());
  world.admit(1, {1, 2, 3}, 2);
  const auto asked = world.kv.take<KvReserve>();
  CHECK(asked.length == 3);
  CHECK(asked.capacity == 5); // not more than it can ever need
  const Batch prefill = world.batch();
  REQUIRE(prefill.entries.size() == 1);
  CHECK(prefill.entries[0].feed.cached == 0);
  CHECK(prefill.entries[0].length == 3);
  CHECK(prefill.entries[0].round.judges);
  CHECK(prefill.entries[0].round.chain == nullptr);
  world.decode(prefill, {7});
  CHECK(world.commits().tokens == Tokens{7});
  const Batch next = world.batch();
  CHECK(next.entries[0].feed.cached == 3);
  CHECK(next.entries[0].length == 4);
  world.decode(next, {8});
  const Committed last = world.commits();
  CHECK(last.first == 1);
  CHECK(last.tokens == Tokens{8});
  CHECK(last.length);
  CHECK(world.kv.take<KvPublish>().valid[target_pool] == 3);
  const auto released = world.kv.take<KvRelease>();
  CHECK(released.sequence == 1);
  CHECK(released.valid[target_pool] == 4);
  CHECK(world.target.empty());
}

TEST_CASE("a token of the end of text ends the output, and what a step brought after it is cut") {
  SchedulerRig world(plain());
  world.admit(1, {1, 2});
  world.decode(world.batch(), {7, 0, 9});
  const Committed news = world.commits();
  CHECK(news.tokens == Tokens{7, 0});
  CHECK(news.end_of_text);
}

TEST_CASE("a long prompt is read in chunks, behind the streams that run") {
  SchedulerRig world(plain()); // 16 prompt tokens a step
  world.admit(1, {1});
  Batch batch = world.batch();
  world.admit(2, Tokens(40, 3));
  world.decode(batch, {7});
  world.facade.take<Commits>();
  std::vector<int> lengths;
  for (bool judged = false; !judged;) {
    batch = world.batch_of(2);
    CHECK(batch.entries[0].spec->id == 1); // first, and never without its row
    CHECK(batch.entries[0].length - batch.entries[0].feed.cached == 1);
    lengths.push_back(batch.entries[1].length);
    judged = batch.entries[1].round.judges;
    world.answer(batch, {SchedulerRig::verdict(batch.entries[0], {5}),
                         SchedulerRig::verdict(batch.entries[1], judged ? Tokens{6} : Tokens{})});
    world.facade.take<Commits>();
  }
  CHECK(lengths == std::vector{16, 32, 40});
}

namespace {

/// Prompts go by the fast path in chunks of 8, at most 16 tokens a step.
SchedulerConfig reading_fast() {
  SchedulerConfig parts = plain();
  parts.fast_chunk = 8;
  return parts;
}

/// Reads a sequence's prompt; how far each step came, and by which path.
std::vector<std::pair<int, bool>> read_prompt(SchedulerRig& world) {
  std::vector<std::pair<int, bool>> steps;
  for (bool judged = false; !judged;) {
    const Batch batch = world.batch();
    const BatchEntry& entry = batch.entries.at(0);
    steps.emplace_back(entry.length, entry.feed.fast);
    judged = entry.round.judges;
    world.decode(batch, judged ? Tokens{6} : Tokens{});
  }
  return steps;
}
using Steps = std::vector<std::pair<int, bool>>;

} // namespace

TEST_CASE("whole chunks of a prompt go by the fast path, its last tokens by the other") {
  SchedulerRig world(reading_fast());
  SUBCASE("some tokens are over") {
    world.admit(1, Tokens(30, 3));
    CHECK(read_prompt(world) == Steps{{16, true}, {24, true}, {30, false}});
  }
  SUBCASE("the last token's logits are asked for, though it ends a chunk") {
    world.admit(1, Tokens(32, 3));
    CHECK(read_prompt(world) == Steps{{16, true}, {24, true}, {32, false}});
  }
  SUBCASE("a chunk and a token") {
    world.admit(1, Tokens(9, 3));
    CHECK(read_prompt(world) == Steps{{8, true}, {9, false}});
  }
  SUBCASE("less than that") {
    world.admit(1, Tokens(8, 3));
    CHECK(read_prompt(world) == Steps{{8, false}});
  }
  CHECK(world.kv.take<KvReserve>().path.chunk == 8);
}

TEST_CASE("what is recomputed goes by the path that it went by before, and is shared as that") {
  SchedulerRig world(reading_fast());
  world.admit(1, Tokens(20, 3), 100, Tokens(15, 4)); // Committed tokens were decoded.
  CHECK(read_prompt(world) == Steps{{16, true}, {32, false}, {35, false}});
  const auto asked = world.kv.take<KvReserve>();
  CHECK(asked.path.fast == 16);
  CHECK(world.kv.take<KvPublish>().path.fast == 16);
  world.abandon(1);
  CHECK(world.kv.take<KvRelease>().path.fast == 16);
}

TEST_CASE("a step's rest that is less than a chunk is left to others") {
  SchedulerRig world(reading_fast());
  world.admit(1, Tokens(12, 3)); // 8 and 4
  Batch batch = world.batch();
  world.admit(2, Tokens(40, 3));
  while (world.kv.take<KvReserve>().sequence != 2) // Then it has its pages.
    ;
  world.decode(batch, {});
  batch = world.batch(); // 4 of the first, and of the second what is left of 16, in chunks
  REQUIRE(batch.entries.size() == 2);
  CHECK(batch.entries[0].length == 12);
  CHECK(!batch.entries[0].feed.fast);
  CHECK(batch.entries[1].length == 8);
  CHECK(batch.entries[1].feed.fast);
}

TEST_CASE("a prompt that is scored is read by the invariant path") {
  SchedulerRig world(reading_fast());
  auto spec = std::make_shared<SequenceSpec>();
  spec->id = 1;
  spec->prompt_tokens = 20;
  spec->max_tokens = 10;
  spec->prompt_logprobs = true;
  world.tell(Admit{spec, Tokens(20, 3)});
  CHECK(read_prompt(world) == Steps{{16, false}, {20, false}});
}

TEST_CASE("the fast path waits for pages of a whole chunk where attention has a window") {
  SchedulerConfig parts = reading_fast();
  parts.attention_window = 20;
  SchedulerRig world(parts);
  world.on_reserve = [](const KvReserve& asked) {
    KvGrant granted = grant(asked.sequence, asked.capacity);
    granted.tables[target_pool] = table(4); // Half a chunk.
    return granted;
  };
  world.on_grow = [](const KvGrow& more) {
    return grant(more.sequence, more.read + 12); // One and a half.
  };
  world.admit(1, Tokens(40, 3));
  CHECK(read_prompt(world) ==
        Steps{{8, true}, {16, true}, {24, true}, {32, true}, {36, false}, {40, false}});
}

TEST_CASE("no more sequences run than may, and the next comes as soon as one ends") {
  SchedulerConfig parts = plain();
  parts.max_num_seqs = 2;
  SchedulerRig world(parts);
  for (const SequenceId id : {1, 2, 3})
    world.admit(id, {1}, 2);
  Batch batch = world.batch();
  world.decode(batch, {5});
  batch = world.batch();
  REQUIRE(batch.entries.size() == 2);
  CHECK(batch.entries[0].spec->id == 1);
  CHECK(batch.entries[1].spec->id == 2);
  world.answer(batch, {SchedulerRig::verdict(batch.entries[0], {5}),
                       SchedulerRig::verdict(batch.entries[1], {5})});
  batch = world.batch(); // 1 is done; 3 has asked for pages meanwhile
  world.decode(batch, {5});
  batch = world.batch();
  CHECK(batch.entries[0].spec->id == 3);
}

TEST_CASE("verdicts of another batch and of another epoch are dropped") {
  SchedulerRig world(plain());
  world.admit(1, {1});
  const Batch batch = world.batch();
  Batch older = batch;
  --older.id;
  world.decode(older, {9});
  Verdict stale = SchedulerRig::verdict(batch.entries[0], {9});
  --stale.epoch.counter;
  world.answer(batch, {stale});
  world.abandon(1); // the end, so that there is one to wait for
  world.kv.take<KvReserve>();
  CHECK(world.kv.take<KvRelease>().sequence == 1);
  CHECK(world.facade.empty());
}

TEST_CASE("a verdict after its request was abandoned commits nothing") {
  SchedulerRig world(plain());
  world.admit(1, {1});
  const Batch batch = world.batch();
  world.abandon(1);
  world.decode(batch, {9});
  world.admit(2, {2});
  CHECK(world.batch().entries.at(0).spec->id == 2);
  CHECK(world.facade.empty());
}

TEST_CASE("a new target gets every sequence again, from its committed tokens") {
  SchedulerRig world(plain());
  world.admit(1, {1, 2, 3});
  world.decode(world.batch(), {7});
  CHECK(world.commits().tokens == Tokens{7});
  const Batch lost = world.batch();
  world.replace_target();
  const Batch again = world.batch();
  CHECK(again.entries[0].feed.cached == 0);
  CHECK(again.entries[0].length == 4);
  CHECK(again.entries[0].epoch > lost.entries[0].epoch);
  world.decode(lost, {8}); // too late
  world.decode(again, {9});
  const Committed news = world.commits();
  CHECK(news.first == 1);
  CHECK(news.tokens == Tokens{9});
  const auto released = world.kv.find<KvRelease>();
  REQUIRE(released);
  CHECK(released->valid[target_pool] == 0); // nobody knows what a dead target wrote
}

TEST_CASE("a target that stands still is ended, and after some recomputations so is its request") {
  SchedulerConfig parts = plain();
  parts.faults.recomputations_max = 3;
  SchedulerRig world(parts);
  world.admit(1, {1, 2, 3});
  std::uint64_t ended = 0;
  for (int round = 0; round <= parts.faults.recomputations_max; ++round) {
    CHECK(world.batch().entries.size() == 1);
    CHECK(world.facade.empty());
    world.run(); // nothing comes but the deadline
    CHECK(world.target_ended);
    ++ended;
    world.replace_target();
  }
  const Error error = world.facade.take<Failed>().error;
  CHECK(error.code == ErrorCode::unavailable);
  CHECK(error.message.find("the target stood still") != std::string::npos);
  CHECK(parts.telemetry->stalls == ended);
  CHECK(parts.telemetry->recomputations == ended);
}

TEST_CASE("a request that is given up says who was lost, where no verdict said it before") {
  SchedulerConfig parts = plain();
  parts.faults.recomputations_max = 2;
  SchedulerRig world(parts);
  world.admit(1, {1, 2, 3});
  for (int round = 0; round <= parts.faults.recomputations_max; ++round) {
    world.batch();
    world.peers.lost = "what round " + std::to_string(round) + " ended of";
    world.replace_target();
  }
  const Error error = world.facade.take<Failed>().error;
  CHECK(error.message.find("what round 2 ended of") != std::string::npos);
  CHECK(error.hint.find("log") != std::string::npos);
}

TEST_CASE("a target whose batches are never overdue is waited for") {
  SchedulerConfig parts = plain();
  parts.faults.stall_patience = {};
  SchedulerRig world(parts);
  world.admit(1, {1, 2, 3});
  world.batch();
  world.run();
  CHECK_FALSE(world.target_ended);
}

TEST_CASE("what was not in a batch when the target died is not held to account for it") {
  SchedulerConfig parts = plain();
  parts.faults.recomputations_max = 0;
  SchedulerRig world(parts);
  world.admit(1, {1, 2, 3});
  world.batch();
  world.admit(2, {4});
  world.run_until([&] { return world.kv.find<KvReserve>().has_value(); });
  world.replace_target();
  CHECK(world.facade.take<Failed>().sequence == 1);
  CHECK(world.batch().entries.at(0).spec->id == 2);
  CHECK(world.facade.empty());
}

TEST_CASE("a draft that drew inconsistently is used no more, and the supervisor hears of it") {
  SchedulerRig world(drafting(SpeculationMode::sync, 2));
  world.admit(1, {1, 2, 3});
  const Batch first = world.batch();
  REQUIRE(first.entries[0].next.chain);
  Verdict caught = SchedulerRig::verdict(first.entries[0], {7});
  first.entries[0].next.chain->begin(4, 6, 6);
  caught.inconsistent_draw = true;
  world.answer(first, {caught});
  CHECK_FALSE(world.batch().entries[0].next.chain);
  world.supervisor.take<DisableDraft>();
}

TEST_CASE("the sequences of a step that failed are recomputed; new tokens count as progress") {
  SchedulerRig world(plain());
  world.admit(1, {1, 2, 3}, 1000);
  for (int round = 0; round < 2 * FaultOptions().recomputations_max; ++round) {
    Verdicts failed;
    failed.batch = world.batch().id;
    failed.error = Error{ErrorCode::internal, "the lane failed", ""};
    world.tell(failed);
    world.decode(world.batch(), {7});
    CHECK(world.commits().first == round);
    world.run_until([&] { return !world.target.empty(); });
  }
}

TEST_CASE("where steps keep failing the target moves to its standby, and nobody is given up") {
  SchedulerConfig parts = plain();
  parts.has_standby = true;
  SchedulerRig world(parts);
  world.admit(1, {1, 2, 3}, 1000);
  for (int round = 0; round <= parts.faults.recomputations_max; ++round) {
    CHECK(world.supervisor.empty());
    Verdicts failed;
    failed.batch = world.batch().id;
    failed.error = Error{ErrorCode::internal, "the device is lost", ""};
    world.tell(failed);
    world.run_until([&] { return !world.target.empty() || !world.supervisor.empty(); });
  }
  world.supervisor.take<MoveTarget>();
  CHECK(world.facade.empty());
  CHECK(world.target.empty()); // nothing more is sent to who fails
}

TEST_CASE("a request whose steps lack memory is given up, standby or not") {
  SchedulerConfig parts = plain();
  parts.has_standby = true;
  parts.faults.recomputations_max = 0;
  SchedulerRig world(parts);
  world.admit(1, {1, 2, 3}, 1000);
  Verdicts failed;
  failed.batch = world.batch().id;
  failed.error = Error{ErrorCode::out_of_memory, "a step ran out of memory", ""};
  world.tell(failed);
  CHECK(world.facade.take<Failed>().sequence == 1);
  CHECK(world.supervisor.empty());
}

TEST_CASE("a row that is no distribution fails its request only") {
  SchedulerRig world(plain());
  world.admit(1, {1});
  world.decode(world.batch(), {7});
  world.commits();
  world.admit(2, {2});
  const Batch batch = world.batch_of(2);
  Verdict bad = SchedulerRig::verdict(batch.entries[0], {});
  bad.failed = true;
  world.answer(batch, {bad, SchedulerRig::verdict(batch.entries[1], {8})});
  CHECK(world.facade.take<Failed>().sequence == bad.sequence);
  CHECK(world.commits().tokens == Tokens{8});
}

TEST_CASE("epochs begin with the incarnation, and grow") {
  SchedulerConfig parts = plain();
  parts.incarnation = 3;
  SchedulerRig world(parts);
  world.admit(1, {1}, 100, {4, 5}); // as the facade gives it to a successor
  const Batch batch = world.batch();
  CHECK(batch.entries[0].epoch.incarnation == 3);
  CHECK(batch.entries[0].length == 3);
  world.decode(batch, {6});
  CHECK(world.commits().first == 2); // what was delivered before is not committed again
  CHECK(world.batch().entries[0].epoch > batch.entries[0].epoch);
}
