// Batches that are sent behind the one that runs, for who goes on.
#include "scheduling/limits.hpp"
#include "tests/scheduling/scheduler_world.hpp"

using namespace paceline;
using namespace paceline::scheduling;
using namespace paceline::speculation;
using namespace paceline::testing;
using PreEnqueuedRig = SchedulerWorld;
using namespace std::chrono_literals;

namespace {

/// Windows of 2 with a lookahead, and a target that may take for ever.
SchedulerConfig pre_enqueuing() {
  SchedulerConfig parts = drafting(SpeculationMode::overlap, 2);
  parts.faults.stall_patience = {};
  return parts;
}

/// One sequence, and its first batch with a whole window.
struct PreEnqueuedWorld : PreEnqueuedRig {
  explicit PreEnqueuedWorld(SchedulerConfig parts = pre_enqueuing(), int max_tokens = 100)
      : PreEnqueuedRig(std::move(parts)) {
    admit(1, {1, 2, 3}, max_tokens);
    const Batch first = batch();
    chain = first.entries.at(0).next.chain;
    chain->begin(4, 6, 9);
    draft_up_to(*chain, 9);
    decode(first, {7});
    window = batch();
  }
  /// The verdict on `batch` that a full hit is. behind: goes on with it; 0: nothing does.
  Verdict hit(const Batch& batch, std::uint64_t behind) const {
    Verdict v = verdict(batch.entries.at(0), {5, 5, 5});
    v.cached = batch.entries[0].length + 2;
    v.judged = v.accepted = 3;
    v.hit = Hit::chain;
    v.had_lookahead = true;
    if (behind)
      v.continuations = {{behind, batch.entries[0].length + 3, 2, batch.entries[0].length + 2}};
    return v;
  }
  bool nothing_sent() {
    run();
    return target.empty();
  }

  ChainRef chain;
  Batch window; ///< That batch.
};

} // namespace

TEST_CASE("with a batch goes the one that follows a full hit of it") {
  PreEnqueuedWorld world;
  const Batch pre_enqueued = world.batch_behind();
  CHECK(pre_enqueued.after == world.window.id);
  CHECK(pre_enqueued.id > world.window.id);
  REQUIRE(pre_enqueued.entries.size() == 1);
  const BatchEntry& before = world.window.entries[0];
  const BatchEntry& entry = pre_enqueued.entries[0];
  CHECK(before.length == 4);
  CHECK(entry.assumed == 3);
  CHECK(entry.length == 7);
  CHECK(entry.logged() == 4);
  CHECK(entry.feed.cached == 6);
  CHECK(entry.round.chain == world.chain);
  CHECK(entry.round.window == 2);
  CHECK(entry.round.whole);
  CHECK(entry.round.judge_lookahead);
  CHECK(before.next.epoch < entry.epoch);
  CHECK(entry.epoch < entry.next.epoch);
  CHECK(entry.next.chain);
  CHECK(entry.next.chain != before.next.chain);
}

TEST_CASE("what has gone on is the batch under way, and the next one is pre-enqueued behind it") {
  PreEnqueuedWorld world;
  const Batch pre_enqueued = world.batch_behind();
  world.commits();
  world.chain->extend(9, 12);
  draft_up_to(*world.chain, 12);
  world.answer(world.window, {world.hit(world.window, pre_enqueued.id)});
  CHECK(world.commits().tokens == Tokens{5, 5, 5});
  const Batch next = world.batch_behind();
  CHECK(next.after == pre_enqueued.id);
  CHECK(next.entries.at(0).length == 10);
  CHECK(next.entries.at(0).logged() == 7);
  CHECK(world.nothing_sent());
  Verdict miss = PreEnqueuedRig::verdict(pre_enqueued.entries[0], {5, 9});
  miss.judged = 2;
  miss.accepted = 1;
  pre_enqueued.entries[0].next.chain->begin(9, 11, 14);
  world.answer(pre_enqueued, {miss});
  CHECK(world.commits().tokens == Tokens{5, 9});
  CHECK(world.batch().entries.at(0).length ==
        9); // and what was pre-enqueued behind it is forgotten
  world.answer(next, {PreEnqueuedRig::verdict(next.entries.at(0), {8})});
  CHECK(world.facade.empty());
}

TEST_CASE("where the lane did not go on a batch is sent as ever") {
  PreEnqueuedWorld world;
  const Batch pre_enqueued = world.batch_behind();
  world.chain->extend(9, 12);
  world.answer(world.window, {world.hit(world.window, 0)}); // it came too late, for one
  const Batch batch = world.batch();
  CHECK(batch.entries.at(0).length == 7);
  CHECK(batch.entries.at(0).assumed == 0);
  CHECK(batch.id > pre_enqueued.id);
}

TEST_CASE("nothing is pre-enqueued that would not fit, or whose hit is unlikely") {
  const auto pre_enqueues = [](SchedulerConfig parts, int max_tokens = 100) {
    PreEnqueuedWorld world(std::move(parts), max_tokens);
    return !world.nothing_sent();
  };
  CHECK(pre_enqueues(pre_enqueuing()));
  CHECK(pre_enqueues(pre_enqueuing(),
                     8)); // one came, three are to come; then a whole window, and a token
  CHECK_FALSE(pre_enqueues(pre_enqueuing(), 6));
  SchedulerConfig parts = pre_enqueuing();
  parts.max_model_len = 9;
  CHECK_FALSE(pre_enqueues(parts));
  parts = pre_enqueuing();
  parts.policy.prior_acceptance = 0.3;
  CHECK_FALSE(pre_enqueues(parts));
}

TEST_CASE("nothing is pre-enqueued while somebody waits for the next step") {
  PreEnqueuedWorld world;
  const Batch pre_enqueued = world.batch_behind();
  world.admit(2, {4, 5});
  world.run();
  world.chain->extend(9, 12);
  draft_up_to(*world.chain, 12);
  world.answer(world.window, {world.hit(world.window, pre_enqueued.id)});
  CHECK(world.nothing_sent()); // the pre-enqueued one runs; whoever came is in the next
}

TEST_CASE("a verdict on the row of a sequence that has ended is dropped") {
  PreEnqueuedWorld world;
  const Batch pre_enqueued = world.batch_behind();
  world.commits();
  world.chain->extend(9, 12);
  draft_up_to(*world.chain, 12);
  Verdict hit = world.hit(world.window, pre_enqueued.id);
  hit.tokens = {5, 5, 0}; // the end of the text
  world.answer(world.window, {hit});
  CHECK(world.commits().end_of_text);
  world.answer(pre_enqueued, {PreEnqueuedRig::verdict(pre_enqueued.entries.at(0), {8})});
  CHECK(world.nothing_sent());
  CHECK(world.facade.empty());
  world.admit(2, {4, 5});
  CHECK(world.batch().entries.at(0).spec->id == 2);
}

TEST_CASE("verdicts of what is pre-enqueued wait for those of the batch before") {
  PreEnqueuedWorld world;
  const Batch pre_enqueued = world.batch_behind();
  world.commits();
  world.chain->extend(9, 12);
  world.answer(pre_enqueued, {PreEnqueuedRig::verdict(pre_enqueued.entries.at(0), {8})});
  CHECK(world.nothing_sent());
  CHECK(world.facade.empty());
  world.answer(world.window, {world.hit(world.window, pre_enqueued.id)});
  CHECK(world.commits().tokens == Tokens{5, 5, 5});
  CHECK(world.commits().tokens == Tokens{8});
}
