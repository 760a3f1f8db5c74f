// What the scheduler does with what was drafted.
#include "scheduling/limits.hpp"
#include "scheduling/round.hpp"
#include "tests/scheduling/scheduler_world.hpp"

using namespace paceline;
using namespace paceline::scheduling;
using namespace paceline::speculation;
using namespace paceline::testing;
using SchedulerSpeculationWorld = SchedulerWorld;
using namespace std::chrono_literals;

TEST_CASE("what was bound is judged, a miss begins the next chain, a hit goes on with it") {
  SchedulerSpeculationWorld world(drafting(SpeculationMode::overlap, 2));
  world.admit(1, {1, 2, 3});
  Batch batch = world.batch();
  const ChainRef first = batch.entries[0].next.chain;
  REQUIRE(first);
  CHECK(batch.entries[0].round.chain == nullptr);
  CHECK(batch.entries[0].next.window == 2);
  CHECK(batch.entries[0].next.lookahead == 3);
  first->begin(4, 6, 9); // the verification's part, and the draft's
  draft_up_to(*first, 7);
  world.decode(batch, {7});

  batch = world.batch();
  CHECK(batch.entries[0].round.chain == first);
  CHECK(batch.entries[0].round.window == 2);
  CHECK(batch.entries[0].round.whole);
  CHECK(batch.entries[0].round.judge_lookahead);
  Verdict hit = SchedulerSpeculationWorld::verdict(batch.entries[0], {5, 5, 5});
  hit.judged = hit.accepted = 3;
  hit.hit = Hit::chain;
  hit.had_lookahead = true;
  first->extend(9, 12);
  draft_up_to(*first, 9);
  world.answer(batch, {hit});

  batch = world.batch();
  CHECK(batch.entries[0].round.chain == first);
  CHECK_FALSE(first->closed());
  const ChainRef second = batch.entries[0].next.chain;
  Verdict miss = SchedulerSpeculationWorld::verdict(batch.entries[0], {5, 9});
  miss.judged = 2;
  miss.accepted = 1;
  second->begin(9, 11, 14);
  draft_up_to(*second, 11);
  world.answer(batch, {miss});

  batch = world.batch();
  CHECK(batch.entries[0].round.chain == second);
  CHECK(first->closed());
}

TEST_CASE("tokens that were drafted under a verification say so") {
  SchedulerSpeculationWorld world(drafting(SpeculationMode::overlap, 1));
  const ChainRef chain = world.begin_drafting(3, 5, 4);
  CHECK(world.commits().sources == std::vector{TokenSource::target});
  Batch batch = world.batch();
  Verdict hit = SchedulerSpeculationWorld::verdict(batch.entries[0], {5, 5});
  hit.sources = {TokenSource::draft, TokenSource::lookahead};
  hit.judged = hit.accepted = 2;
  hit.hit = Hit::chain;
  hit.had_lookahead = true;
  chain->extend(6, 8);
  draft_up_to(*chain, 5); // before the verdict is known here
  world.answer(batch, {hit});
  CHECK(world.commits().sources == hit.sources);
  draft_up_to(*chain, 6); // behind it
  batch = world.batch();
  Verdict next = SchedulerSpeculationWorld::verdict(batch.entries[0], {5, 5, 6});
  next.sources = {TokenSource::draft, TokenSource::draft, TokenSource::target};
  next.judged = next.accepted = 2;
  world.answer(batch, {next});
  CHECK(world.commits().sources ==
        std::vector{TokenSource::lookahead, TokenSource::draft, TokenSource::target});
}

TEST_CASE("a window that comes too late is not waited for beyond the draft's patience") {
  SchedulerSpeculationWorld world(drafting(SpeculationMode::sync, 4));
  const auto begin = world.now;
  const ChainRef chain = world.begin_drafting(6, 6, 3);
  const Batch batch = world.batch();
  CHECK(world.now - begin == scheduling::limits::draft_timeout_min);
  CHECK(batch.entries[0].round.judge_lookahead); // what is bound by the time the pass ends
}

TEST_CASE("a window of a draft that has drawn nothing yet is waited for longer") {
  SchedulerSpeculationWorld world(drafting(SpeculationMode::sync, 4));
  const auto begin = world.now;
  world.begin_drafting(6, 6, 2);
  const Batch batch = world.batch();
  CHECK(world.now - begin == scheduling::limits::first_draft_timeout);
  CHECK(batch.entries[0].round.window == 0);
}

TEST_CASE("what is there of a window that comes too late is judged") {
  SchedulerSpeculationWorld world(drafting(SpeculationMode::sync, 4));
  const ChainRef chain = world.begin_drafting(6, 6, 4);
  const Batch batch = world.batch();
  CHECK(world.now.time_since_epoch() == scheduling::limits::draft_timeout_min);
  CHECK(batch.entries[0].round.chain == chain);
  CHECK(batch.entries[0].round.window == 2);
}

TEST_CASE("a sequence whose bound token is late is held up until that is there, and nobody else") {
  SchedulerSpeculationWorld world(drafting(SpeculationMode::sync, 4));
  const ChainRef chain = world.begin_drafting(6, 6, 4);
  chain->bind(5);
  world.commits();
  world.admit(2, {1, 2});
  for (int step = 0; step < 3; ++step) {
    const Batch batch = world.batch();
    REQUIRE(batch.entries.size() == 1);
    CHECK(batch.entries[0].spec->id == 2);
    if (const ChainRef& next = batch.entries[0].next.chain)
      next->begin(batch.entries[0].length + 1, 0, 0);
    world.decode(batch, {7});
    world.commits();
  }
  chain->put(4, 5, nullptr);
  const Batch batch = world.batch_of(2);
  CHECK(batch.entries[0].spec->id == 1);
  CHECK(batch.entries[0].round.window == 3); // every one that was bound
}

TEST_CASE("a sequence goes on with what was late, whatever is bound behind it by then") {
  SchedulerSpeculationWorld world(drafting(SpeculationMode::sync, 4));
  const ChainRef chain = world.begin_drafting(6, 6, 4);
  chain->bind(5);
  world.commits();
  world.run_until([&] { return world.now.time_since_epoch() > 100ms; });
  CHECK(world.target.empty());
  chain->bind(6); // the draft is at the next one before anybody hears of this one
  chain->put(4, 5, nullptr);
  const auto there = world.now;
  CHECK(world.batch().entries.at(0).round.chain == chain);
  CHECK(world.now == there);
}

TEST_CASE("a draft that stands still over a token behind an empty window is ended, too") {
  const SchedulerConfig config = drafting(SpeculationMode::sync, 4);
  SchedulerSpeculationWorld world(config);
  const ChainRef chain = world.begin_drafting(6, 6, 4);
  chain->bind(5);
  world.commits();
  world.run_until([&] { return world.now.time_since_epoch() > 100ms; });
  chain->put(4, 5, nullptr);
  const Batch batch = world.batch();
  CHECK(batch.entries[0].next.window == 0); // after what was late nothing is drafted for a while
  CHECK(config.telemetry->draft_late == 1);
  CHECK(config.telemetry->draft_pauses == 1);
  chain->bind(6);
  Verdict late = SchedulerSpeculationWorld::verdict(batch.entries[0], {5, 5, 5});
  late.judged = late.accepted = 3;
  late.hit = Hit::chain;
  late.draft_late = true;
  world.answer(batch, {late});
  CHECK(world.commits().tokens == Tokens{5, 5, 5});
  world.run_until([&] { return world.draft_ended; });
  CHECK(world.draft_ended);
}

TEST_CASE("a look-up that knows no more has not cut its window, and one that is late has") {
  for (const bool late : {false, true}) {
    CAPTURE(late);
    SchedulerConfig config = drafting(SpeculationMode::sync, 4);
    config.drafters = {"suffix"};
    config.draft_pool.reset();
    SchedulerSpeculationWorld world(config);
    const ChainRef chain = world.begin_drafting(6, 6, 2);
    world.commits();
    if (!late)
      chain->end_at(2);
    world.run_until([&] { return !world.target.empty(); });
    const Batch batch = world.batch();
    CHECK(batch.entries[0].round.window == 0);
    world.answer(batch, {SchedulerSpeculationWorld::verdict(batch.entries[0], {9})});
    CHECK(world.commits().speculation.windows_cut == late);
  }
}

TEST_CASE("a step that a bound token was too late for changes nothing, and is made again") {
  SchedulerSpeculationWorld world(drafting(SpeculationMode::overlap, 1));
  const ChainRef chain = world.begin_drafting(3, 5, 2);
  world.commits();
  const Batch batch = world.batch();
  chain->bind(3);
  Verdict late = SchedulerSpeculationWorld::verdict(batch.entries[0], {});
  late.cached = batch.entries[0].length - 1;
  late.draft_late = true;
  late.hit = Hit::chain;
  world.answer(batch, {late});
  world.run_until([&] { return world.now.time_since_epoch() > 100ms; });
  CHECK(world.target.empty());
  CHECK(world.facade.empty());
  chain->put(2, 5, nullptr);
  const Batch again = world.batch();
  CHECK(again.entries[0].length == batch.entries[0].length);
  CHECK(again.entries[0].feed.cached == batch.entries[0].feed.cached);
  CHECK(again.entries[0].round.chain == chain);
  CHECK(again.entries[0].round.window == 1);
}

TEST_CASE("a draft that owes a bound token for too long is ended") {
  SchedulerConfig config = drafting(SpeculationMode::sync, 4);
  SchedulerSpeculationWorld world(config);
  const ChainRef chain = world.begin_drafting(6, 6, 4);
  chain->bind(5);
  world.commits();
  world.run_until([&] { return world.draft_ended; });
  CHECK(world.draft_ended);
  CHECK(world.now.time_since_epoch() >= config.faults.stall_patience);
  world.announce(false);
  CHECK(world.batch().entries.at(0).round.chain == nullptr);
}

TEST_CASE("a draft is not held to what its predecessor owed") {
  SchedulerSpeculationWorld world(drafting(SpeculationMode::sync, 4));
  world.begin_drafting(6, 6, 2)->bind(3);
  world.commits();
  world.announce(false);
  world.abandon(1);
  world.go_on(world.batch());
  world.run();
  world.now += 1h;
  world.announce();
  world.admit(2, {1});
  const Batch first = world.batch();
  const ChainRef chain = first.entries.at(0).next.chain;
  chain->begin(2, 6, 6);
  chain->bind(3);
  world.decode(first, {7});
  world.commits();
  CHECK_FALSE(world.draft_ended);
}

TEST_CASE("a window is waited for, and its batch goes out the moment it is there") {
  SchedulerSpeculationWorld world(drafting(SpeculationMode::sync, 2));
  const ChainRef chain = world.begin_drafting(4, 4, 2);
  world.commits(); // the scheduler has done all it can, and waits
  const auto begin = world.now;
  CHECK(world.target.empty());
  draft_up_to(*chain, 4);
  Batch batch = world.batch();
  CHECK(world.now == begin);
  CHECK(batch.entries[0].round.window == 2);
}

TEST_CASE("a sequence alone waits for its window in overlap as far as that is worth it") {
  struct Pair {
    double acceptance;
    double cost_ratio;
    bool waits;
  };
  for (const Pair& pair : {Pair{0.8, 0.05, true}, {0.3, 0.5, false}, {0.6, 0.4, false}}) {
    CAPTURE(pair.acceptance);
    SchedulerConfig config = drafting(SpeculationMode::overlap, 4);
    config.policy.prior_acceptance = pair.acceptance;
    config.policy.prior_cost_ratio = pair.cost_ratio;
    SchedulerSpeculationWorld world(config);
    world.admit(1, {1});
    const Batch first = world.batch();
    const ChainRef chain = first.entries.at(0).next.chain;
    chain->begin(2, 6, 11);
    world.answer(first, {SchedulerSpeculationWorld::verdict(first.entries.at(0), {7})}, 10ms);
    world.commits();
    CHECK(world.target.empty() == pair.waits);
    draft_up_to(*chain, 6);
    CHECK(world.batch().entries.at(0).round.window == (pair.waits ? 4 : 0));
  }
}

TEST_CASE("windows go on whose rows cost less than they bring, whatever sizes steps have had") {
  SchedulerConfig config = plain();
  config.policy.mode = SpeculationMode::sync;
  config.policy.prior_cost_ratio = 0.01;
  config.policy.window_limit = 1;
  config.has_draft = true;
  config.draft_pool = 1;
  SchedulerSpeculationWorld world(config);
  const auto took = [](int rows) { return 10ms + rows * 1ms; };
  for (SequenceId id = 1; id <= 4; ++id)
    world.admit(id, Tokens(8, TokenId(id)), 400);
  int windows = 0;
  for (int step = 0; step < 120; ++step) {
    const Batch batch = world.batch();
    int rows = 0;
    std::vector<Verdict> verdicts;
    for (const BatchEntry& entry : batch.entries) {
      const int window = entry.round.window;
      rows += entry.length - entry.feed.cached + window;
      windows += step >= 60 && window > 0;
      const int accepted = (step + int(entry.spec->id)) % 5 < 3 ? window : 0; // three in five
      Tokens tokens(std::size_t(entry.round.judges ? accepted + 1 : 0), 7);
      verdicts.push_back(SchedulerSpeculationWorld::verdict(entry, std::move(tokens)));
      verdicts.back().cached += accepted;
      verdicts.back().window = window;
      verdicts.back().judged = std::min(window, accepted + 1);
      verdicts.back().accepted = accepted;
      turn_over(entry, verdicts.back());
      if (entry.next.chain)
        draft_up_to(*entry.next.chain, entry.next.chain->limit());
    }
    world.now += took(rows);
    world.answer(batch, std::move(verdicts), took(rows));
  }
  CHECK(windows > 200); // of 240
}

TEST_CASE("a window never reaches beyond what the request may still say") {
  SchedulerSpeculationWorld world(drafting(SpeculationMode::sync, 8));
  world.admit(1, {1}, 4);
  Batch batch = world.batch();
  CHECK(batch.entries[0].next.window == 2); // one token comes now, one is the verdict's own
  const ChainRef chain = batch.entries[0].next.chain;
  chain->begin(2, 4, 4);
  draft_up_to(*chain, 4);
  world.decode(batch, {7});
  batch = world.batch();
  CHECK(batch.entries[0].round.window == 2);
  CHECK(batch.entries[0].next.window == 1); // should it accept nothing
}

TEST_CASE("a draft that lied is not asked again, and its request goes on") {
  SchedulerSpeculationWorld world(drafting(SpeculationMode::sync, 2));
  const ChainRef chain = world.begin_drafting(4, 4, 4);
  Batch batch = world.batch();
  Verdict lie = SchedulerSpeculationWorld::verdict(batch.entries[0], {8});
  lie.judged = 1;
  lie.inconsistent_draw = true;
  world.answer(batch, {lie});
  batch = world.batch();
  CHECK(chain->closed());
  CHECK(batch.entries[0].round.chain == nullptr);
  CHECK(batch.entries[0].next.chain == nullptr);
}

TEST_CASE("a fork that came true when its draft was gone is not gone on with") {
  SchedulerSpeculationWorld world(drafting(SpeculationMode::overlap, 2));
  const ChainRef chain = world.begin_drafting(4, 7, 5);
  world.commits();
  const Batch batch = world.batch();
  const auto fork = std::make_shared<Chain>(1);
  fork->begin_fork(3, 5, 2, 1);
  chain->add_fork(2, 9, fork);
  Verdict verdict = SchedulerSpeculationWorld::verdict(batch.entries[0], {9});
  verdict.judged = 1;
  verdict.hit = Hit::fork;
  world.announce(false);
  world.answer(batch, {verdict});
  CHECK(world.commits().tokens == Tokens{9});
  CHECK(world.batch().entries.at(0).round.chain == nullptr);
}

namespace {

/// Answers each entry with one token, which none of its window's was, and drafts the next window.
void miss_all(SchedulerSpeculationWorld& world, const Batch& batch) {
  std::vector<Verdict> verdicts;
  for (const BatchEntry& entry : batch.entries) {
    verdicts.push_back(SchedulerSpeculationWorld::verdict(entry, {9}));
    verdicts.back().judged = std::min(entry.round.window, 1);
    if (const ChainRef& next = entry.next.chain) {
      next->begin(entry.length + 1, entry.length + 3, entry.length + 6);
      draft_up_to(*next, entry.length + 6);
    }
  }
  world.answer(batch, std::move(verdicts));
}

/// Answers batches, each taking as long as `machine` says, until there is one of two sequences that
/// was planned by what steps cost.
Batch after_learning(SchedulerSpeculationWorld& world,
                     const std::function<base::Duration(int)>& machine) {
  for (int steps = 0; steps < 40; ++steps) {
    const Batch batch = world.batch();
    if (steps > 20 && batch.entries.size() == 2)
      return batch;
    int rows = 0;
    std::vector<Verdict> verdicts;
    for (const BatchEntry& entry : batch.entries) {
      rows += entry.length - entry.feed.cached + entry.round.window;
      verdicts.push_back(
          SchedulerSpeculationWorld::verdict(entry, entry.round.judges ? Tokens{7} : Tokens{}));
      verdicts.back().window = entry.round.window;
      turn_over(entry, verdicts.back());
      if (entry.next.chain)
        draft_up_to(*entry.next.chain, entry.next.chain->limit());
    }
    world.now += machine(rows);
    world.answer(batch, std::move(verdicts), machine(rows));
  }
  return {};
}

} // namespace

TEST_CASE("in overlap nothing is drafted ahead while waiting for windows should bring more") {
  for (const bool rows_are_free : {true, false}) {
    SchedulerConfig config = plain();
    config.policy.mode = SpeculationMode::overlap;
    config.has_draft = true;
    config.draft_pool = 1;
    SchedulerSpeculationWorld world(config);
    world.admit(1, Tokens(3, 1));
    world.admit(2, Tokens(9, 1));
    const Batch batch =
        after_learning(world, [&](int rows) { return rows_are_free ? 10ms : 10ms + rows * 1ms; });
    REQUIRE(batch.entries.size() == 2);
    for (const BatchEntry& entry : batch.entries)
      CHECK((entry.next.lookahead > 0) == rows_are_free);
  }
}

TEST_CASE("in overlap nothing is drafted ahead that adds more to steps than it brings") {
  for (const bool shares_device : {true, false}) {
    SchedulerConfig config = plain();
    config.policy.mode = SpeculationMode::overlap;
    config.policy.fork_rows = 0;
    config.policy.shares_device = shares_device;
    config.has_draft = true;
    config.draft_pool = 1;
    SchedulerSpeculationWorld world(config);
    world.admit(1, Tokens(3, 1), 400);
    int ahead = 0;
    for (int step = 0; step < 100; ++step) {
      const Batch batch = world.batch();
      const BatchEntry& entry = batch.entries.at(0);
      base::Duration beside{};
      if (const ChainRef& chain = entry.round.chain) {
        beside = (chain->limit() - chain->window_end()) * 1ms;
        chain->spent(beside, {1ms, {}});
      }
      Verdict verdict = SchedulerSpeculationWorld::verdict(entry, {9});
      verdict.window = entry.round.window;
      verdict.judged = std::min(entry.round.window, 1);
      turn_over(entry, verdict);
      if (entry.next.chain)
        draft_up_to(*entry.next.chain, entry.next.chain->limit());
      ahead += step >= 50 && entry.next.lookahead > 0;
      const base::Duration took = 10ms + beside / 2;
      world.now += took;
      world.answer(batch, {verdict}, took);
    }
    CHECK((ahead > 25) == !shares_device);
  }
}

TEST_CASE("no forks are planned while a sequence that has begun waits for pages") {
  SchedulerConfig config = drafting(SpeculationMode::overlap, 2);
  config.policy.lookahead = Lookahead::fork;
  SchedulerSpeculationWorld world(config);
  bool full = false;
  world.on_reserve = [&](const KvReserve& asked) {
    return full ? refusal(asked.sequence) : grant(asked.sequence, asked.sequence == 1 ? 1000 : 12);
  };
  world.on_grow = [](const KvGrow& asked) { return refusal(asked.sequence); };
  const auto forks_planned = [](const Batch& batch) {
    return batch.entries.at(0).next.forking.rows > 0;
  };
  const auto next_of = [&](const Batch& before) {
    world.now += scheduling::limits::reservation_pause; // that a step takes
    miss_all(world, before);
    return world.batch();
  };
  world.admit(1, Tokens(6, 1));
  world.admit(2, Tokens(6, 2));
  Batch batch = world.batch_of(2);
  CHECK(forks_planned(batch));
  full = true;
  while (batch.entries.size() == 2) // until the second has no room for a token more
    batch = next_of(batch);
  batch = next_of(batch);
  CHECK(batch.entries[0].next.chain);
  CHECK_FALSE(forks_planned(batch));
  full = false;
  world.kv.clear();
  world.run_until([&] { return world.kv.find<KvReserve>().has_value(); });
  while (batch.entries.size() == 1)
    batch = next_of(batch);
  CHECK(forks_planned(batch));
}

TEST_CASE("without its draft a sequence goes on in plain decoding at once") {
  SchedulerSpeculationWorld world(drafting(SpeculationMode::sync, 2));
  const ChainRef chain = world.begin_drafting(4, 4, 2); // it would wait for the window
  world.commits();
  const auto begin = world.now;
  world.announce(false);
  Batch batch = world.batch();
  CHECK(world.now == begin);
  CHECK(batch.entries[0].round.window == 0);
  CHECK(batch.entries[0].next.chain == nullptr);
}

TEST_CASE("a window has as many rows beside it as logits and bounds for steps leave") {
  struct Bounds {
    int logit_rows;
    int row_budget;
    int rows;
  };
  for (const Bounds& bounds :
       {Bounds{64, 0, 48}, Bounds{40, 0, 36}, Bounds{64, 10, 6}, Bounds{64, 3, 0}}) {
    CAPTURE(bounds.logit_rows);
    CAPTURE(bounds.row_budget);
    SchedulerConfig config = drafting(SpeculationMode::sync, 3);
    config.policy.tree_rows = config.policy.tree_rows_max = 48;
    config.logit_rows = bounds.logit_rows;
    config.row_budget = bounds.row_budget;
    SchedulerSpeculationWorld world(config);
    world.begin_drafting(5, 5, 5);
    const Batch batch = world.batch();
    CHECK(batch.entries[0].round.window == 3);
    CHECK(batch.entries[0].round.tree.rows == bounds.rows);
    CHECK(batch.entries[0].next.forking.beside);
  }
}
