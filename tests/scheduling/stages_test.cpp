// A target in stages: several batches under way.
#include "tests/scheduling/scheduler_world.hpp"

#include <set>

using namespace paceline;
using namespace paceline::scheduling;
using namespace paceline::testing;
using StagesWorld = SchedulerWorld;
using namespace std::chrono_literals;

namespace {

SchedulerConfig in_stages(int stages, SchedulerConfig config = plain()) {
  config.stages = stages;
  config.max_num_seqs = 8;
  return config;
}

/// So many sequences that decode. Returns the batches under way: the first of them is to be
/// answered.
std::vector<Batch> decoding(StagesWorld& world, int sequences, int stages) {
  for (int id = 1; id <= sequences; ++id)
    world.admit(SequenceId(id), {TokenId(id)});
  std::deque<Batch> under_way;
  for (int step = 0; step < 40; ++step) { // until sizes have evened out
    while (!world.target.empty())
      under_way.push_back(world.batch());
    if (under_way.empty())
      under_way.push_back(world.batch());
    world.go_on(under_way.front(), 10ms);
    under_way.pop_front();
    world.facade.take<Commits>(); // the next batch is sent before
  }
  while (!world.target.empty())
    under_way.push_back(world.batch());
  CHECK(int(under_way.size()) == stages);
  return {under_way.begin(), under_way.end()};
}

} // namespace

TEST_CASE("as many batches are under way as there are stages, of a size, each of other sequences") {
  for (const int stages : {1, 2, 3, 4}) {
    CAPTURE(stages);
    StagesWorld world(in_stages(stages));
    std::multiset<SequenceId> members;
    for (const Batch& batch : decoding(world, 8, stages)) {
      CHECK(batch.after == 0);
      CHECK(int(batch.entries.size()) <= (8 + stages - 1) / stages);
      CHECK(int(batch.entries.size()) >= 8 / stages - 1);
      for (const BatchEntry& entry : batch.entries)
        members.insert(entry.spec->id);
    }
    CHECK(members == std::multiset<SequenceId>{1, 2, 3, 4, 5, 6, 7, 8});
  }
}

TEST_CASE("fewer sequences than stages are a batch each") {
  StagesWorld world(in_stages(4));
  world.admit(1, {1});
  world.admit(2, {2});
  const Batch first = world.batch();
  const Batch second = world.batch();
  CHECK(first.entries.size() == 1);
  CHECK(second.entries.size() == 1);
  world.run();
  CHECK(world.target.empty());
}

TEST_CASE("verdicts that overtake those of an earlier batch wait for them") {
  SchedulerConfig config = in_stages(2);
  config.faults.stall_patience = 0s; // the first batch may take for ever
  StagesWorld world(config);
  const std::vector<Batch> batches = decoding(world, 4, 2);
  world.facade.clear();
  world.go_on(batches[1], 10ms);
  world.run();
  CHECK(world.facade.empty());
  CHECK(world.target.empty());
  world.go_on(batches[0], 10ms);
  CHECK(world.facade.take<Commits>().sequences.at(0).sequence == batches[0].entries[0].spec->id);
  CHECK(world.facade.take<Commits>().sequences.at(0).sequence == batches[1].entries[0].spec->id);
  CHECK(world.batch().entries.size() == 2);
  CHECK(world.batch().entries.size() == 2);
}

TEST_CASE("a step that fails costs its own sequences a recomputation, and no others") {
  StagesWorld world(in_stages(2));
  const std::vector<Batch> batches = decoding(world, 4, 2);
  world.kv.clear();
  Verdicts failed;
  failed.batch = batches[0].id;
  failed.error = Error{ErrorCode::internal, "a step failed", ""};
  world.tell(failed);
  world.run_until([&] { return !world.kv.empty(); });
  std::set<SequenceId> evicted;
  while (const auto release = world.kv.find<KvRelease>())
    evicted.insert(release->sequence);
  std::set<SequenceId> members;
  for (const BatchEntry& entry : batches[0].entries)
    members.insert(entry.spec->id);
  CHECK(evicted == members);
  world.facade.clear();
  world.go_on(batches[1], 10ms); // is still waited for
  CHECK(world.facade.take<Commits>().sequences.size() == 2);
}

TEST_CASE("the batch that comes first then is watched for a stall, too") {
  SchedulerConfig config = in_stages(2);
  config.faults.stall_patience = 1s;
  StagesWorld world(config);
  const std::vector<Batch> batches = decoding(world, 4, 2);
  world.go_on(batches[0], 10ms);
  world.run(); // and nothing more comes
  CHECK(world.target_ended);
}

TEST_CASE("a stage that stands still with what was given up is ended, though nobody waits for it") {
  for (const bool lets_go : {false, true}) {
    CAPTURE(lets_go);
    SchedulerConfig config = in_stages(2);
    config.faults.stall_patience = 1s;
    StagesWorld world(config);
    std::vector<Batch> held = decoding(world, 4, 2); // as lanes have them
    for (SequenceId id = 1; id <= 4; ++id)
      world.abandon(id);
    world.run_until([&] { return !world.kv.find<KvRelease>(); });
    ++world.peers.target; // another stage was lost, and has a successor
    world.announce();
    world.target.clear();
    CHECK_FALSE(world.target_ended);
    if (lets_go)
      held.clear();
    world.run();
    CHECK(world.target_ended == !lets_go);
  }
}

TEST_CASE("what was given up is looked for as soon as a stall, were it the first step of all") {
  SchedulerConfig config = in_stages(2);
  config.faults.stall_patience = 1s;
  StagesWorld world(config);
  world.admit(1, {1});
  const Batch held = world.batch();
  ++world.peers.target;
  world.announce();
  CHECK(world.run_until([&] { return world.target_ended; }));
  CHECK(world.now < base::TimePoint(10s));
}

TEST_CASE("what a stage holds of before is looked for once the target is whole again") {
  SchedulerConfig config = in_stages(2);
  config.faults.stall_patience = 1s;
  StagesWorld world(config);
  const std::vector<Batch> held = decoding(world, 4, 2);
  for (SequenceId id = 1; id <= 4; ++id)
    world.abandon(id);
  const std::uint64_t successor = world.peers.target + 1;
  world.peers.target = 0;
  world.announce();
  world.run();
  CHECK_FALSE(world.target_ended);
  world.peers.target = successor;
  world.announce();
  world.run();
  CHECK(world.target_ended);
}

TEST_CASE("in sync mode who has to wait for a window holds up nobody else") {
  StagesWorld world(in_stages(2, drafting(SpeculationMode::sync, 2)));
  world.admit(1, {1});
  world.admit(2, {2});
  const Batch first = world.batch();
  const Batch second = world.batch();
  REQUIRE(first.entries.size() == 1);
  REQUIRE(second.entries.size() == 1);
  for (const Batch& batch : {first, second}) { // what is drafted behind each
    const auto& chain = batch.entries[0].next.chain;
    REQUIRE(chain);
    chain->begin(2, 4, 4);
  }
  world.go_on(first, 10ms);
  world.go_on(second, 10ms);
  draft_up_to(*second.entries[0].next.chain, 4); // the first one's is late
  const Batch next = world.batch();
  REQUIRE(next.entries.size() == 1);
  CHECK(next.entries[0].spec->id == second.entries[0].spec->id);
  CHECK(next.entries[0].round.window == 2);
  draft_up_to(*first.entries[0].next.chain, 4);
  const Batch last = world.batch();
  CHECK(last.entries.at(0).spec->id == first.entries[0].spec->id);
  CHECK(last.entries.at(0).round.window == 2);
}

namespace {

/// One sequence with windows of one token, of which a whole chain is drawn; the batches under way.
std::vector<Batch> in_flight(StagesWorld& world) {
  world.begin_drafting(3, 9, 9);
  std::vector<Batch> batches{world.target.take<Batch>()};
  while (!world.target.empty())
    batches.push_back(world.target.take<Batch>());
  return batches;
}

} // namespace

TEST_CASE("windows of one sequence are in flight, one in each stage") {
  StagesWorld world(in_stages(3, drafting(SpeculationMode::overlap, 1)));
  const std::vector<Batch> batches = in_flight(world);
  REQUIRE(batches.size() == 3);
  for (int i = 0; i < 3; ++i) {
    const BatchEntry& entry = batches[std::size_t(i)].entries.at(0);
    CHECK(batches[std::size_t(i)].after == (i > 0 ? batches[std::size_t(i) - 1].id : 0));
    CHECK(entry.assumed == 2 * i);
    CHECK(entry.length == 2 + 2 * i);
    CHECK(entry.round.window == 1);
  }
  Verdict hit = StagesWorld::verdict(batches[0].entries[0], {5, 5});
  hit.judged = hit.accepted = 2;
  hit.window = 1;
  hit.hit = Hit::chain;
  hit.continuations = {{batches[1].id, 4, 1, 3}, {batches[2].id, 6, 1, 5}};
  world.answer(batches[0], {hit});
  const auto next = world.target.take<Batch>();
  CHECK(next.after == batches[2].id);
  CHECK(next.entries.at(0).length == 8);
  CHECK(next.entries.at(0).assumed == 4);
}

TEST_CASE("a rejection drops what is behind it, and verdicts of that are stale") {
  StagesWorld world(in_stages(3, drafting(SpeculationMode::overlap, 1)));
  const std::vector<Batch> batches = in_flight(world);
  REQUIRE(batches.size() == 3);
  world.facade.clear();
  Verdict miss = StagesWorld::verdict(batches[0].entries[0], {6});
  miss.window = miss.judged = 1;
  world.answer(batches[0], {miss});
  CHECK(world.commits().tokens == Tokens{6});
  world.answer(batches[1], {StagesWorld::verdict(batches[1].entries[0], {5, 5})});
  world.run_until([&] { return !world.target.empty(); });
  CHECK(world.facade.empty());
  const auto next = world.target.take<Batch>();
  CHECK(next.after == 0);
  CHECK(next.entries.at(0).length == 3);
}

namespace {

/// Where a batch may take for ever.
SchedulerConfig patient(int stages) {
  SchedulerConfig config = in_stages(stages);
  config.faults.stall_patience = 0s;
  return config;
}

/// A prompt of so many tokens; the batches that are sent at first.
std::vector<Batch> reading(StagesWorld& world, SequenceId id, int tokens, int max_tokens = 3) {
  Tokens prompt;
  for (int i = 0; i < tokens; ++i)
    prompt.push_back(TokenId(1 + i % 7));
  world.admit(id, prompt, max_tokens);
  std::vector<Batch> batches{world.batch()};
  while (!world.target.empty())
    batches.push_back(world.batch());
  return batches;
}

/// What the target's pages are said to have right.
int given_back(StagesWorld& world) {
  const auto release = world.kv.find<KvRelease>();
  REQUIRE(release);
  return release->valid.at(target_pool);
}

} // namespace

TEST_CASE("chunks of a prompt are under way in all stages, each behind the one before") {
  for (const int stages : {1, 2, 3, 4}) {
    CAPTURE(stages);
    StagesWorld world(patient(stages));
    std::vector<Batch> first = reading(world, 1, 75); // 16, 16, 16, 16 and 11
    CHECK(int(first.size()) == stages);
    std::deque<Batch> under_way(first.begin(), first.end());
    std::uint64_t before = 0;
    int read = 0;
    while (read < 75) {
      REQUIRE(!under_way.empty());
      const Batch batch = under_way.front();
      under_way.pop_front();
      const BatchEntry& entry = batch.entries.at(0);
      CHECK(entry.feed.cached == read);
      CHECK(entry.feed.follows == (stages > 1 ? before : 0));
      CHECK(entry.length == std::min(read + 16, 75));
      CHECK(entry.round.judges == (entry.length == 75));
      read = entry.length;
      before = batch.id;
      world.go_on(batch, 10ms);
      world.run_until([&] { return !world.target.empty(); });
      while (!world.target.empty())
        under_way.push_back(world.batch());
    }
    CHECK(world.commits().tokens == Tokens{7});
    CHECK(under_way.size() == 1); // the first token's
    CHECK(under_way.front().entries.at(0).feed.follows == 0);
  }
}

TEST_CASE("a chunk counts as read when its step has retired, and no sooner") {
  StagesWorld world(patient(3));
  const std::vector<Batch> batches = reading(world, 1, 75);
  REQUIRE(batches.size() == 3);
  world.go_on(batches[0], 10ms);
  world.run_until([&] { return !world.target.empty(); });
  world.abandon(1);
  world.run();
  CHECK(given_back(world) == 16);
  world.facade.clear();
  for (const Batch& batch : {batches[1], batches[2]})
    world.go_on(batch, 10ms);
  world.run();
  CHECK(world.facade.empty());
}

TEST_CASE("a chunk that failed takes those behind it along, and is read again") {
  for (const std::size_t failing : {0, 1, 2}) {
    CAPTURE(failing);
    StagesWorld world(patient(3));
    const std::vector<Batch> batches = reading(world, 1, 75);
    REQUIRE(batches.size() == 3);
    for (std::size_t i = 0; i < failing; ++i)
      world.go_on(batches[i], 10ms);
    Verdicts failed;
    failed.batch = batches[failing].id;
    failed.error = Error{ErrorCode::internal, "a step failed", ""};
    world.tell(failed);
    world.run_until([&] { return world.kv.find<KvRelease>().has_value(); });
    for (std::size_t i = failing + 1; i < 3; ++i) // those went on in vain
      world.go_on(batches[i], 10ms);
    std::deque<Batch> under_way;
    int read = 0;
    for (int steps = 0; read < 75 && steps < 40; ++steps) {
      while (!world.target.empty())
        under_way.push_back(world.batch());
      if (under_way.empty())
        under_way.push_back(world.batch());
      const Batch batch = under_way.front();
      under_way.pop_front();
      const bool stale = batch.id <= batches.back().id + failing; // sent before the error came
      if (!stale) {
        CHECK(batch.entries.at(0).feed.cached == read);
        CHECK((batch.entries.at(0).feed.follows == 0) == (read == 0));
        read = batch.entries.at(0).length;
      }
      world.go_on(batch, 10ms);
      world.run_until([&] { return !world.target.empty() || !world.facade.empty(); });
    }
    CHECK(read == 75);
    const Committed news = world.commits();
    CHECK(news.first == 0);
    CHECK(news.tokens == Tokens{7});
  }
}

TEST_CASE("verdicts of chunks that come in another order are taken in the prompt's") {
  StagesWorld world(patient(3));
  const std::vector<Batch> batches = reading(world, 1, 40); // 16, 16 and 8
  REQUIRE(batches.size() == 3);
  world.go_on(batches[2], 10ms);
  world.go_on(batches[1], 10ms);
  world.run_until([&] { return !world.facade.empty() || !world.target.empty(); });
  CHECK(world.facade.empty());
  CHECK(world.target.empty());
  world.go_on(batches[0], 10ms);
  CHECK(world.commits().tokens == Tokens{7});
}

TEST_CASE("prompts share the stages, the first one's chunks before the next one's") {
  StagesWorld world(patient(4));
  const std::vector<Batch> batches = reading(world, 1, 40); // 16, 16, 8 and room for 8 more
  REQUIRE(batches.size() == 3);
  const std::vector<Batch> more = reading(world, 2, 40);
  REQUIRE(more.size() == 1);
  CHECK(more[0].entries.at(0).spec->id == 2);
  CHECK(more[0].entries.at(0).feed.follows == 0);
  world.go_on(batches[0], 10ms);
  const Batch next = world.batch();
  CHECK(next.entries.at(0).spec->id == 2);
  CHECK(next.entries.at(0).feed.cached == 16);
  CHECK(next.entries.at(0).feed.follows == more[0].id);
}

TEST_CASE("behind a rejection what is under way for its fork goes on, and the rest is dropped") {
  StagesWorld world(in_stages(3, drafting(SpeculationMode::overlap, 1)));
  const std::vector<Batch> batches = in_flight(world); // at 2, 4 and 6
  REQUIRE(batches.size() == 3);
  const ChainRef chain = batches[0].entries[0].round.chain;
  const auto fork = std::make_shared<Chain>(1);
  fork->begin_fork(3, 40, 2, 1);
  draft_up_to(*fork, 12);
  chain->add_fork(2, 6, fork);
  world.facade.clear();
  Verdict miss = StagesWorld::verdict(batches[0].entries[0], {6});
  miss.window = miss.judged = 1;
  miss.cached = 2;
  miss.hit = Hit::fork;
  miss.continuations = {{batches[2].id, 3, 2, 2}}; // which the second stage's pass has no rows for
  world.answer(batches[0], {miss});
  CHECK(world.commits().tokens == Tokens{6});
  const auto behind = world.target.take<Batch>();
  CHECK(behind.after == batches[2].id);
  const BatchEntry& own = behind.entries.at(0);
  CHECK(own.round.chain == fork);
  CHECK(own.length == 6);
  CHECK(own.assumed == 3);
  CHECK(own.feed.cached == 2); // all that the fork's pages have
  CHECK(own.feed.again == 3);
  CHECK_FALSE(own.feed.own);
  world.target.clear();

  Verdict judged = StagesWorld::verdict(batches[2].entries[0], {5, 4}); // with nothing behind it
  judged.window = judged.judged = 2;
  judged.accepted = 1;
  judged.cached = 2;
  world.answer(batches[1],
               {StagesWorld::verdict(batches[1].entries[0], {5, 5})}); // of no batch any more
  world.answer(batches[2], {judged});
  CHECK(world.commits().tokens == Tokens{5, 4});
  const auto next = world.target.take<Batch>();
  CHECK(next.after == 0);
  CHECK(next.entries.at(0).length == 5);
  CHECK(next.entries.at(0).feed.cached == 2);
  CHECK(next.entries.at(0).feed.again == 2);
  CHECK(next.entries.at(0).round.judges);
}
