// The target actor alone, with a mock of the sampler.
#include "actors/target_model.hpp"
#include "tests/actors/models_world.hpp"

#include <doctest/doctest.h>

#include <tuple>

using namespace paceline;
using namespace paceline::actors;
using namespace paceline::messages;
using namespace paceline::scheduling;
using namespace paceline::speculation;
using namespace paceline::execution;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

struct TargetWorld : ModelWorld {
  TargetWorld() {
    target = simulation.spawn<TargetModel>(
        TargetModelParts{{model, device, pool}, 32, 8, closer, telemetry});
    ActorHandles handles;
    handles.version = 1;
    handles.sampler = sampler.actor;
    simulation.tell(target, handles);
  }
  ~TargetWorld() {
    simulation.kill(target);
    simulation.run();
  }
  BatchEntry entry(const Tokens& tokens) {
    BatchEntry entry;
    entry.spec = greedy(1, int(tokens.size()));
    entry.log = std::make_shared<TokenLog>(tokens, 100);
    entry.length = int(tokens.size());
    entry.feed.pages = pages(32);
    return entry;
  }

  Mock<SamplerActor> sampler{simulation};
  TargetActor target;
};

} // namespace

TEST_CASE("the sampler gets the logits' handle at once, and the pass runs on the lane meanwhile") {
  TargetWorld world;
  Batch batch;
  batch.id = 5;
  batch.entries.push_back(world.entry({1, 2, 3}));
  batch.entries.push_back(world.entry({4, 5}));
  const auto begin = world.simulation.now();
  world.simulation.tell(world.target, batch);
  const auto logits = world.sampler.take<Logits>();
  CHECK(world.simulation.now() == begin);
  CHECK_FALSE(logits.pass->retirement.completed);
  CHECK(world.simulation.ask<Pong>(world.target, Ping{})); // in the middle of a pass
  CHECK(world.simulation.now() == begin);
  REQUIRE(world.simulation.run_until([&] { return logits.pass->retirement.completed; }));
  CHECK(world.simulation.now() - begin == 10ms);
  CHECK(logits.pass->batch.id == 5);
  REQUIRE(logits.pass->rows.size() == 2);
  const gpu::Tensor rows = logits.pass->workspace->logits();
  for (const auto& [index, tokens] : {std::pair{0, Tokens{1, 2, 3}}, std::pair{1, Tokens{4, 5}}}) {
    const auto& part = logits.pass->rows[std::size_t(index)];
    CHECK(part.logit_rows == 1);
    const float* row = rows.row(part.first_logit_row);
    CHECK(TokenId(std::max_element(row, row + ModelWorld::vocabulary) - row) ==
          world.likeliest(tokens));
  }
}

TEST_CASE("a batch that came already, or is an earlier scheduler's, is not run") {
  TargetWorld world;
  const std::uint64_t successors = std::uint64_t(2) << 40;
  for (const std::uint64_t id :
       {successors + 6, std::uint64_t(7), successors + 6, successors + 7}) {
    Batch batch;
    batch.id = id;
    batch.entries.push_back(world.entry({1, 2, 3}));
    world.simulation.tell(world.target, batch);
  }
  CHECK(world.sampler.take<Logits>().pass->batch.id == successors + 6);
  CHECK(world.sampler.take<Logits>().pass->batch.id == successors + 7);
  world.simulation.run();
  CHECK(world.sampler.mail->empty());
}

TEST_CASE("bound tokens that are not there in time are not part of the pass") {
  TargetWorld world;
  Batch batch;
  batch.id = 1;
  batch.draft_timeout = 50ms;
  BatchEntry entry = world.entry({1, 2, 3});
  entry.round.chain = std::make_shared<Chain>(1);
  entry.round.chain->begin(3, 6, 6);
  entry.round.chain->bind(6);
  entry.round.chain->put(3, 7, nullptr);
  entry.round.window = 3;
  batch.entries.push_back(entry);
  world.simulation.tell(world.target, batch);
  const auto logits = world.sampler.take<Logits>();
  const auto begin = world.simulation.now();
  REQUIRE(world.simulation.run_until([&] { return logits.pass->retirement.completed; }));
  CHECK(world.simulation.now() - begin >= 50ms); // it waited, and no longer than it may
  CHECK(world.simulation.now() - begin <= 70ms);
  CHECK(logits.pass->rows[0].window == 1);
  CHECK(logits.pass->rows[0].tokens == Tokens{1, 2, 3, 7});
}

namespace {

/// A batch whose sequence has a whole window {4, 5}, and what a full hit would have behind it.
struct PreEnqueuedPair {
  explicit PreEnqueuedPair(TargetWorld& world) {
    BatchEntry entry = world.entry({1, 2, 3});
    entry.round.chain = std::make_shared<Chain>(1);
    entry.round.chain->begin(3, 5, 10);
    entry.round.chain->bind(8);
    for (int position = 3; position < 8; ++position)
      entry.round.chain->put(position, TokenId(position + 1) % ModelWorld::vocabulary, nullptr);
    entry.round.window = 2;
    entry.round.whole = true;
    first.id = 1;
    first.entries.push_back(entry);
    entry.assumed = 3;
    entry.length = 6;
    entry.feed.cached = 5;
    pre_enqueued.id = 2;
    pre_enqueued.after = 1;
    pre_enqueued.entries.push_back(entry);
  }
  Batch first;
  Batch pre_enqueued;
};

} // namespace

TEST_CASE("a pre-enqueued pass feeds what the log does not have yet, for who goes on") {
  for (const bool goes_on : {true, false}) {
    CAPTURE(goes_on);
    TargetWorld world;
    const PreEnqueuedPair pair(world);
    world.simulation.tell(world.target, pair.first);
    world.simulation.tell(world.target, pair.pre_enqueued);
    const auto first = world.sampler.take<Logits>();
    const auto pre_enqueued = world.sampler.take<Logits>();
    REQUIRE(pre_enqueued.step); // it is the sampler's to enqueue
    REQUIRE(world.simulation.run_until([&] { return first.pass->retirement.completed; }));
    if (goes_on) { // the verification's part
      const execution::Onset onset{0, pair.first.entries[0].round.chain, 6};
      Verdict verdict;
      execution::PassOutcome::go_on(*first.pass->outcome, {&onset, 1}, {&verdict, 1});
    }
    const auto begin = world.simulation.now();
    REQUIRE(pre_enqueued.lane->submit(pre_enqueued.step));
    REQUIRE(world.simulation.run_until([&] { return pre_enqueued.pass->retirement.completed; }));
    CHECK_FALSE(pre_enqueued.pass->ahead);
    CHECK(world.simulation.now() - begin == (goes_on ? 10ms : 0ms));
    REQUIRE(pre_enqueued.pass->batch.entries.size() == std::size_t(goes_on));
    if (!goes_on)
      continue;
    const auto& rows = pre_enqueued.pass->rows.at(0);
    CHECK(rows.prefix == Tokens{4, 5, 6});
    CHECK(rows.tokens == Tokens{6, 7, 0});
    CHECK(rows.window == 2);
    CHECK(rows.logit_rows == 3);
    const float* row = pre_enqueued.pass->workspace->logits().row(rows.first_logit_row);
    CHECK(TokenId(std::max_element(row, row + ModelWorld::vocabulary) - row) ==
          world.likeliest({1, 2, 3, 4, 5, 6}));
  }
}

TEST_CASE("a pre-enqueued batch is dropped where the one before has not come, or is over") {
  TargetWorld world;
  const PreEnqueuedPair pair(world);
  world.simulation.tell(world.target, pair.pre_enqueued); // it overtook the one before
  world.simulation.tell(world.target, pair.first);
  {
    const auto first = world.sampler.take<Logits>();
    CHECK(first.pass->batch.id == 1); // which runs all the same
    REQUIRE(world.simulation.run_until([&] { return first.pass->retirement.completed; }));
  }
  world.simulation.tell(world.target, pair.pre_enqueued); // nobody has the first pass any more
  world.simulation.run();
  CHECK(world.sampler.mail->empty());
}

namespace {

/// Two stages on devices of their own; what stands behind the first one's actor is the test's.
struct StagesWorld : ModelWorld {
  StagesWorld() {
    devices = {device,
               gpu::open_device("sim:10ms", {.threads = 1, .time = clock, .trace = {}}).value()};
    const auto models = models::make_scripted_stages(script, devices).value();
    TargetModelParts parts{{models[0], devices[0], pool}, 32, 8, closer, telemetry};
    parts.behind.push_back(
        {models[1], devices[1],
         gpu::KvPool::create(*devices[1], models[1]->kv_shape(page_tokens), 64).value()});
    first = simulation.spawn<TargetModel>(parts, std::size_t(0));
    second = simulation.spawn<TargetModel>(parts, std::size_t(1));
    ActorHandles handles;
    handles.version = 1;
    handles.sampler = sampler.actor;
    handles.stages = {first, between.actor};
    simulation.tell(first, handles);
    simulation.tell(second, handles);
  }
  ~StagesWorld() {
    simulation.kill(first);
    simulation.kill(second);
    simulation.run();
  }
  /// Tokens from `begin` up to `end` of a prompt of seven.
  Batch chunk(std::uint64_t id, int begin, int end, std::uint64_t follows) {
    Batch batch;
    batch.id = id;
    BatchEntry entry;
    entry.spec = greedy(1, 7);
    entry.log = log;
    entry.length = end;
    entry.round.judges = end == 7;
    entry.feed = {begin, table, false, false, follows};
    batch.entries.push_back(std::move(entry));
    return batch;
  }
  /// What the second stage's lane makes of this pass.
  gpu::Retirement end_of(const Logits& logits) {
    logits.pass->handovers.back().expect(logits.lane, {logits.step});
    simulation.run();
    return logits.pass->retirement;
  }

  std::vector<std::shared_ptr<gpu::Device>> devices;
  TokenLogRef log = std::make_shared<TokenLog>(Tokens{1, 2, 3, 4, 5, 6, 7}, 100);
  gpu::PageTableRef table = pages(32);
  Mock<SamplerActor> sampler{simulation};
  Mock<TargetActor> between{simulation};
  TargetActor first;
  TargetActor second;
};

void check_out_of_turn(const gpu::Retirement& how) {
  CHECK(!how.completed);
  REQUIRE(how.error);
  CHECK(how.error->message.find("before the one that it follows") != std::string::npos);
}

} // namespace

TEST_CASE("a prompt's chunks go through the stages in their order, or those too early fail") {
  for (const bool overtaken : {false, true}) {
    CAPTURE(overtaken);
    StagesWorld world;
    world.simulation.tell(world.first, world.chunk(1, 0, 4, 0));
    world.simulation.tell(world.first, world.chunk(2, 4, 7, 1));
    std::vector<StagePass> passes{world.between.take<StagePass>(), world.between.take<StagePass>()};
    if (overtaken)
      std::swap(passes[0], passes[1]);
    for (const StagePass& pass : passes)
      world.simulation.tell(world.second, pass);
    const auto one = world.sampler.take<Logits>();
    const auto other = world.sampler.take<Logits>();
    if (overtaken) {
      CHECK(one.pass->batch.id == 2);
      check_out_of_turn(world.end_of(one));
      CHECK(world.end_of(other).completed);
    } else {
      CHECK(world.end_of(one).completed);
      CHECK(world.end_of(other).completed);
    }
  }
}

TEST_CASE("a chunk fails whose target has not had the one before it") {
  StagesWorld world;
  world.simulation.tell(world.first, world.chunk(2, 4, 7, 1));
  const auto late = world.between.take<StagePass>();
  world.simulation.tell(world.first, world.chunk(1, 0, 4, 0));
  world.between.take<StagePass>();
  world.simulation.run();
  check_out_of_turn(late.pass->retirement);
}

TEST_CASE("a chunk follows one that is over") {
  StagesWorld world;
  for (const auto& [id, begin, end] : {std::tuple{1, 0, 4}, {2, 4, 7}}) {
    world.simulation.tell(world.first,
                          world.chunk(std::uint64_t(id), begin, end, std::uint64_t(id) - 1));
    world.simulation.tell(world.second, world.between.take<StagePass>());
    CHECK(world.end_of(world.sampler.take<Logits>()).completed);
  }
}
