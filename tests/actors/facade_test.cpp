// The facade alone: a mock scheduler on one side, callers' streams on the other. What it decides is
// tested in tests/scheduling/requests_test.cpp.
#include "actors/facade.hpp"
#include "models/synthetic/scripted.hpp"
#include "tests/actors/mail.hpp"
#include "tests/support/pools.hpp"
#include "tests/support/recorder.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::actors;
using namespace paceline::messages;
using namespace paceline::scheduling;
using namespace paceline::speculation;
using namespace paceline::execution;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

struct FacadeWorld {
  FacadeWorld() {
    facade = simulation.spawn<Facade>(
        FacadeParts{models::make_scripted_tokenizer("scripted:vocabulary=32").value(),
                    std::make_shared<base::Telemetry>(), 0});
    wire(scheduler.actor);
  }
  void wire(const SchedulerActor& to) {
    ActorHandles handles;
    handles.version = ++versions;
    handles.scheduler = to;
    simulation.tell(facade, handles);
  }

  std::shared_ptr<Recorder> submit(SequenceId id, std::optional<base::Duration> deadline = {}) {
    auto spec = std::make_shared<SequenceSpec>();
    spec->id = id;
    spec->prompt_tokens = 2;
    spec->max_tokens = 100;
    spec->noise.seed = 40 + id;
    spec->deadline = deadline;
    auto caller = std::make_shared<Recorder>();
    simulation.tell(facade, Submit{spec, {1, 2}, {}, true, caller});
    return caller;
  }
  void commit(Committed committed) { simulation.tell(facade, Commits{{std::move(committed)}}); }
  void await(const Recorder& caller) {
    REQUIRE(simulation.run_until([&] { return caller.ended(); }));
  }

  Simulation simulation{0, exact_order};
  Mock<SchedulerActor> scheduler{simulation};
  FacadeActor facade;
  std::uint64_t versions = 0;
};

} // namespace

TEST_CASE("a request is admitted, streams its tokens, ends once, and the scheduler hears of it") {
  FacadeWorld world;
  const auto caller = world.submit(7);
  const auto admitted = world.scheduler.take<Admit>();
  CHECK(admitted.spec->id == 7);
  CHECK(admitted.tokens == Tokens{1, 2});
  world.commit(news(7, 0, {3, 4}));
  world.commit(news(7, 2, {5}, true));
  CHECK(world.scheduler.take<Abandon>().sequence == 7);
  CHECK(caller->answer.tokens == Tokens{3, 4, 5});
  CHECK(caller->answer.text == " 3 4 5");
  CHECK(caller->answer.end().reason == FinishReason::length);
  CHECK(caller->answer.end().seed == 47);
  CHECK(caller->answer.end().usage.completion_tokens == 3);
}

TEST_CASE("a new scheduler gets every open request with all that was delivered, and no other") {
  FacadeWorld world;
  const auto ended = world.submit(1);
  const auto open = world.submit(2);
  world.commit(news(1, 0, {3}, true));
  world.commit(news(2, 0, {4, 5}));
  world.await(*ended);
  Mock<SchedulerActor> successor{world.simulation};
  world.wire(successor.actor);
  const auto admitted = successor.take<Admit>();
  CHECK(admitted.spec->id == 2);
  CHECK(admitted.tokens == Tokens{1, 2, 4, 5});
  world.wire(successor.actor); // somebody else was restarted: nothing is admitted again
  world.commit(news(2, 2, {6}, true));
  CHECK(successor.take<Abandon>().sequence == 2);
  CHECK(open->answer.tokens == Tokens{4, 5, 6});
}

TEST_CASE("a deadline ends what is not finished by then, keeping what it has") {
  FacadeWorld world;
  const auto late = world.submit(1, 50ms);
  const auto unhurried = world.submit(2);
  world.commit(news(1, 0, {3}));
  const auto begin = world.simulation.now();
  world.await(*late);
  CHECK(world.simulation.now() - begin == 50ms);
  CHECK(late->answer.end().reason == FinishReason::deadline);
  CHECK(late->answer.tokens == Tokens{3});
  CHECK_FALSE(unhurried->ended());
}

TEST_CASE("draining refuses new requests, answers with the last end, and has a limit") {
  FacadeWorld world;
  const auto first = world.submit(1);
  const auto second = world.submit(2);
  bool drained = false;
  world.simulation.run_until([&] { return !world.scheduler.mail->empty(); });
  world.commit(news(1, 0, {3}));
  const auto begin = world.simulation.now();
  drained = world.simulation.ask<Drained>(world.facade, Drain{2s}).has_value();
  CHECK(drained);
  CHECK(world.simulation.now() - begin == 2s);
  CHECK(first->answer.end().reason == FinishReason::cancelled);
  CHECK(second->answer.end().reason == FinishReason::cancelled);
  const auto refused = world.submit(3);
  world.await(*refused);
  CHECK(refused->answer.end().error->code == ErrorCode::unavailable);
  CHECK(world.simulation.ask<Drained>(world.facade, Drain{2s})); // nothing is left: at once
}

TEST_CASE("when the facade goes, every open request is answered") {
  FacadeWorld world;
  const auto first = world.submit(1);
  const auto second = world.submit(2);
  world.simulation.run();
  world.simulation.kill(world.facade);
  world.simulation.run();
  for (const auto& caller : {first, second})
    CHECK(caller->answer.end().error->code == ErrorCode::unavailable);
}
