// What becomes of parts that keep dying, and of an engine that cannot go on.
#include "tests/engine/world.hpp"

#include <doctest/doctest.h>

#include <condition_variable>
#include <mutex>

using namespace paceline;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

Request five_tokens_and(int max_tokens) {
  Request request;
  request.prompt_tokens = {1, 2, 3, 4, 5};
  request.max_tokens = max_tokens;
  return request;
}

EngineOptions options_with(int restarts_max) {
  EngineOptions options = simulated();
  options.speculation = SpeculationMode::overlap;
  options.faults.restarts_max = restarts_max;
  return options;
}

EngineOptions options_with_reserve() {
  EngineOptions options = options_with(2);
  options.reserve_device = "sim:5ms+0.1ms/row";
  return options;
}

std::vector<TokenId> plain_tokens(int max_tokens) {
  EngineOptions options = simulated();
  options.speculation = SpeculationMode::off;
  Engine engine = open_engine(options);
  return ask(engine, five_tokens_and(max_tokens)).tokens;
}

/// Runs a request to its end, and then until all is silent.
Answer answer(EngineWorld& world, int max_tokens = 40) {
  const auto recorder = world.submit(five_tokens_and(max_tokens));
  REQUIRE(world.run_until_ended({recorder}));
  world.run();
  return recorder->answer;
}

/// Nothing happens for so long.
void let_pass(EngineWorld& world, std::chrono::milliseconds time) {
  const base::TimePoint until = world.now() + time;
  world.stop_clock_after(time);
  world.run();
  REQUIRE(world.now() >= until);
}

/// Holds the actor up at its next message.
void hold_up_once(EngineWorld& world, std::string_view name, base::Duration time) {
  world.decide_fates([name, time, done = false](const actors::Arrival& arrival) mutable {
    const bool now = arrival.name == name && !std::exchange(done, true);
    return now ? actors::Fate{actors::Fate::Kind::hold_up, time} : actors::Fate{};
  });
}

void kill_draft(EngineWorld& world) {
  world.kill(world.handles().draft);
  world.run();
}

} // namespace

TEST_CASE("a draft that keeps dying is disabled, and metrics and results say so") {
  EngineWorld world(options_with(3));
  CHECK(answer(world).end().speculation.drafted > 0);
  for (int n = 0; n < 3; ++n)
    kill_draft(world);
  CHECK_FALSE(world.metrics().draft_disabled);
  CHECK_FALSE(answer(world).end().speculation.draft_disabled);
  kill_draft(world);
  CHECK(world.metrics().draft_disabled);
  CHECK(world.metrics().restarts == 4);
  CHECK_FALSE(world.handles().draft);
  const Answer plain = answer(world);
  CHECK(plain.tokens == plain_tokens(40));
  CHECK(plain.end().speculation.draft_disabled);
  CHECK(plain.end().speculation.drafted == 0);
}

TEST_CASE("deaths that lie far apart are forgotten") {
  EngineWorld world(options_with(2));
  for (int n = 0; n < 10; ++n) {
    kill_draft(world);
    let_pass(world, 61s);
  }
  CHECK_FALSE(world.metrics().draft_disabled);
  CHECK(answer(world).end().speculation.drafted > 0);
}

TEST_CASE("the pause before a restart doubles up to its bound") {
  EngineOptions options = options_with(100);
  options.faults.restart_pause = 10ms;
  options.faults.restart_pause_max = 35ms;
  EngineWorld world(options, 0, exact_order);
  for (const auto pause : {10ms, 20ms, 35ms, 35ms}) {
    const base::TimePoint died = world.now();
    world.kill(world.handles().draft);
    world.step();
    while (!world.handles().draft)
      world.step();
    CHECK(world.now() - died == pause);
    world.run();
  }
}

TEST_CASE("a draft that lied stays out, whatever scheduler comes next") {
  EngineWorld world(options_with(100));
  messages::tell(world.handles().supervisor, scheduling::DisableDraft{});
  world.run();
  CHECK_FALSE(world.handles().draft);
  for (int round = 0; round < 2; ++round) {
    const Answer plain = answer(world);
    CHECK(plain.tokens == plain_tokens(40));
    CHECK(plain.end().speculation.draft_disabled);
    CHECK(plain.end().speculation.drafted == 0);
    world.kill(world.handles().scheduler);
    world.run();
  }
  CHECK(world.metrics().draft_disabled);
}

TEST_CASE("when a part keeps dying the engine ends: open and later requests are answered") {
  EngineWorld world(options_with(2));
  const auto open = world.submit(five_tokens_and(200));
  for (int n = 0; n < 2; ++n) {
    const auto sampler = world.handles().sampler;
    world.kill(sampler);
    while (world.handles().sampler == sampler)
      world.step();
  }
  CHECK_FALSE(open->ended());
  world.kill(world.handles().sampler);
  world.run();
  CHECK(open->answer.end().error.value().code == ErrorCode::unavailable);
  CHECK(open->answer.end().error->message.find("the sampler died") != std::string::npos);
  const auto late = world.submit(five_tokens_and(10));
  world.run();
  CHECK(late->answer.end().error.value().code == ErrorCode::unavailable);
  CHECK_FALSE(late->answer.end().error->hint.empty());
}

TEST_CASE(
    "a target that keeps dying moves to its standby, and ends the engine if it dies there, too") {
  EngineWorld world(options_with_reserve());
  const auto open = world.submit(five_tokens_and(200));
  const auto die = [&] {
    const auto target = world.handles().stages.at(0);
    world.kill(target);
    while (world.handles().stages.at(0) == target && world.step())
      continue;
    REQUIRE(world.handles().stages.at(0) != target); // asking takes steps, too, maybe the last ones
  };
  die();
  die();
  CHECK_FALSE(world.metrics().target_moved);
  const auto draft = world.handles().draft;
  die();
  CHECK(world.metrics().target_moved);
  CHECK(world.handles().draft != draft); // which had written for the other device
  REQUIRE(world.run_until_ended({open}));
  CHECK(open->answer.tokens == plain_tokens(200));
  CHECK(open->answer.end().speculation.drafted > 0);
  CHECK(answer(world).tokens == plain_tokens(40));
  die();
  die();
  world.kill(world.handles().stages.at(0));
  world.run();
  const auto late = world.submit(five_tokens_and(10));
  world.run();
  CHECK(late->answer.end().error.value().code == ErrorCode::unavailable);
}

TEST_CASE("nobody begins on the standby before all others have let go") {
  EngineWorld world(options_with_reserve());
  const messages::ActorHandles before = world.handles();
  hold_up_once(world, "kv_cache", 100ms);
  messages::tell(before.kv_cache, messages::Ping{});
  messages::tell(before.supervisor, scheduling::MoveTarget{});
  const base::TimePoint half = world.now() + 50ms;
  world.stop_clock_after(50ms);
  REQUIRE(world.run_until([&] { return world.now() >= half; }));
  CHECK(world.handles().stages.at(0) == before.stages.at(0));
  CHECK(answer(world).tokens == plain_tokens(40));
  CHECK(world.handles().stages.at(0) != before.stages.at(0));
}

TEST_CASE("a draft that is disabled while the target moves keeps nobody waiting") {
  EngineWorld world(options_with_reserve());
  const messages::ActorHandles before = world.handles();
  hold_up_once(world, "draft", 100ms); // until all others are down, and their pauses over
  messages::tell(before.draft, messages::Ping{});
  messages::tell(before.supervisor, scheduling::DisableDraft{});
  messages::tell(before.supervisor, scheduling::MoveTarget{});
  CHECK(answer(world).tokens == plain_tokens(40));
  CHECK(world.metrics().target_moved);
  CHECK_FALSE(world.handles().draft);
}

TEST_CASE("the round after the draft's death takes no longer than a plain one") {
  constexpr base::Duration plain = 10ms; // simulated(): a pass of one row
  std::size_t seen = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    EngineOptions options = options_with(100);
    options.speculation = seed % 2 ? SpeculationMode::overlap : SpeculationMode::automatic;
    EngineWorld world(options, seed, exact_order);
    const auto draft = world.handles().draft;
    const auto recorder = world.submit(five_tokens_and(150));
    const auto dies_at = std::chrono::microseconds(211 * seed % 9000); // after a delta
    std::vector<base::TimePoint> deltas;
    std::size_t died = 0; // Deltas by then.
    for (std::size_t tokens = 0; !recorder->ended();) {
      if (deltas.size() >= 10 && died == 0 && world.now() - deltas.back() > dies_at) {
        world.kill(draft);
        died = deltas.size();
      }
      REQUIRE(world.step());
      if (std::exchange(tokens, recorder->answer.tokens.size()) != tokens)
        deltas.push_back(world.now());
    }
    if (died == 0 || deltas.size() < died + 2)
      continue;
    ++seen;
    CHECK(deltas[died + 1] - deltas[died] <= plain * 11 / 10); // deltas[died] was under way
  }
  CHECK(seen > 30);
}

TEST_CASE("watching over lanes costs a round nothing: an alarm in a while, no message") {
  const auto events = [](std::chrono::milliseconds patience) {
    EngineOptions options = options_with(100);
    options.faults.stall_patience = patience;
    EngineWorld world(options, 0, exact_order);
    const auto recorder = world.submit(five_tokens_and(200));
    std::size_t steps = 0;
    while (!recorder->ended() && world.step())
      ++steps;
    return std::pair(steps, world.metrics().rounds);
  };
  const auto [with, rounds] = events(10s);
  const auto [without, same_rounds] = events(0s);
  CHECK(rounds == same_rounds);
  CHECK(with <= without + rounds / 50);
}

TEST_CASE("a killed target costs one recomputation of each sequence in its batch") {
  EngineWorld world(options_with(100));
  const auto recorder = world.submit(five_tokens_and(60));
  world.run_until([&] { return recorder->answer.tokens.size() > 10; });
  world.kill(world.handles().stages.at(0));
  REQUIRE(world.run_until_ended({recorder}));
  CHECK(recorder->answer.tokens == plain_tokens(60));
  CHECK(world.metrics().recomputations == 1);
}

TEST_CASE("fault settings out of range are refused by name") {
  const auto complains = [](auto change) {
    EngineOptions options = simulated();
    change(options.faults);
    const auto engine = Engine::open(options);
    REQUIRE_FALSE(engine);
    CHECK(engine.error().code == ErrorCode::invalid_argument);
    CHECK(engine.error().message.find("faults.") != std::string::npos);
  };
  complains([](FaultOptions& f) { f.restarts_max = -1; });
  complains([](FaultOptions& f) { f.recomputations_max = -1; });
  complains([](FaultOptions& f) { f.stall_patience = -1ms; });
  complains([](FaultOptions& f) { f.restart_pause = 3s; });
}

namespace {

/// Does not come back from a call until it is let go.
class StuckDrafter final : public Drafter {
public:
  void propose(std::span<DraftTask* const>) override {
    std::unique_lock lock(mutex_);
    CHECK_FALSE(std::exchange(inside_, true)); // one thread at a time, as promised
    ++calls_;
    free_.wait(lock, [this] { return let_go_; });
    inside_ = false;
  }
  int calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    let_go_ = true;
    free_.notify_all();
  }

private:
  std::mutex mutex_;
  std::condition_variable free_;
  bool let_go_ = false;
  bool inside_ = false;
  int calls_ = 0;
};

/// An engine whose draft's lane has been abandoned.
Engine stuck_engine(const std::shared_ptr<StuckDrafter>& drafter) {
  EngineOptions options = simulated();
  options.virtual_time = false;
  options.devices = {"cpu"};
  options.draft_devices = {"cpu"};
  options.threads = 1;
  options.custom_drafter = drafter;
  options.speculation = SpeculationMode::overlap;
  options.faults.stall_patience = 20ms; // so little that a busy machine's target may stall too
  options.faults.restarts_max = options.faults.recomputations_max = 1'000'000;
  Engine engine = open_engine(options);
  for (int n = 0; n < 100'000 && engine.metrics().stalls == 0; ++n)
    CHECK(ask(engine, five_tokens_and(100)).end().reason == FinishReason::length);
  CHECK(engine.metrics().stalls > 0);
  CHECK(drafter->calls() == 1);
  return engine;
}

} // namespace

// It runs on real threads: a lane's thread that does not come back can only be left alone.
TEST_CASE("a draft's lane that stands still is abandoned, and its successor drafts") {
  const auto drafter = std::make_shared<StuckDrafter>();
  Engine engine = stuck_engine(drafter);
  drafter->let_go();
  for (int n = 0; n < 100'000 && drafter->calls() < 2; ++n)
    ask(engine, five_tokens_and(100));
  CHECK(drafter->calls() >= 2);
}

TEST_CASE("an engine can be closed although one of its lanes never comes back") {
  const auto drafter = std::make_shared<StuckDrafter>();
  {
    Engine engine = stuck_engine(drafter);
    engine.shutdown(0ms);
  }
  drafter->let_go();
}
