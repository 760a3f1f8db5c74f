// What an engine does when there is nothing, or little, to do: messages, alarms, useless drafts.
#include "scheduling/limits.hpp"
#include "tests/engine/world.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::testing;
using namespace std::chrono_literals;

TEST_CASE("an engine that was never asked is silent") {
  EngineWorld world(simulated());
  world.handles();
  world.run();
  CHECK(world.run() == 0);
  CHECK(world.metrics().messages <= 1); // the question for pages just now
}

TEST_CASE("an engine that has answered falls silent: no alarm is set again, none pile up") {
  for (const SpeculationMode mode : all_modes) {
    CAPTURE(std::string(to_string(mode)));
    EngineOptions options = simulated();
    options.speculation = mode;
    EngineWorld world(options);
    std::vector<std::shared_ptr<Recorder>> answers;
    for (int i = 0; i < 4; ++i)
      answers.push_back(world.submit(request_of(10 + i, 200, i)));
    REQUIRE(world.run_until_ended(answers));
    const std::uint64_t messages = world.metrics().messages;
    CHECK(world.run() < 40);
    CHECK(world.metrics().messages - messages < 10);
    CHECK(world.run() == 0);
  }
}

TEST_CASE("a round costs at most seven messages, and growing two now and then") {
  for (const SpeculationMode mode : all_modes)
    for (const int sequences : {1, 6}) {
      CAPTURE(std::string(to_string(mode)));
      CAPTURE(sequences);
      EngineOptions options = simulated();
      options.speculation = mode;
      EngineWorld world(options);
      std::vector<std::shared_ptr<Recorder>> answers;
      for (int i = 0; i < sequences; ++i)
        answers.push_back(world.submit(request_of(10, 200, i)));
      const auto run_until_all_have = [&](std::size_t tokens) {
        return world.run_until([&] {
          return std::ranges::all_of(
              answers, [&](const auto& a) { return a->answer.tokens.size() >= tokens; });
        });
      };
      REQUIRE(run_until_all_have(10));
      const Metrics before = world.metrics();
      REQUIRE(run_until_all_have(80)); // none has ended: every batch is a round of each
      const Metrics after = world.metrics();
      const auto batches = (after.rounds - before.rounds) / std::uint64_t(sequences);
      const auto growths = std::uint64_t(sequences) * (70 / scheduling::limits::tokens_ahead + 1);
      CHECK(after.messages - before.messages <= 7 * batches + 2 * growths);
      CHECK(after.messages - before.messages >= 5 * batches); // all are counted
    }
}

TEST_CASE("a draft that is nearly always wrong is left alone") {
  const auto seconds = [](SpeculationMode mode) {
    EngineOptions options = simulated({.acceptance = 0.05, .context = 4096});
    options.speculation = mode;
    options.draft_devices = {"sim:4ms"};
    options.kv_memory_bytes = 0;
    Engine engine = open_engine(options);
    Request request = request_of(10, 2000);
    request.sampling.temperature = 1.0f;
    const Answer answer = ask(engine, request);
    return answer.end().timing.total_seconds;
  };
  const double plain = seconds(SpeculationMode::off);
  CHECK(seconds(SpeculationMode::automatic) < 1.05 * plain);
  CHECK(seconds(SpeculationMode::sync) < 1.15 * plain); // the sequence's own throttle
}

TEST_CASE("virtual time can be let pass, to the nanosecond, with and without work") {
  Engine engine = open_engine(simulated());
  const auto idle = [] { return false; };
  CHECK(engine.now() == 0ns);
  CHECK_FALSE(engine.run_until(idle, 1h));
  CHECK(engine.now() == 1h);
  Request request;
  request.prompt_tokens = {1, 2, 3};
  request.max_tokens = 20;
  Stream stream = submit(engine, request);
  CHECK_FALSE(engine.run_until(idle, 1h + 5ms)); // no step is over by then
  CHECK_FALSE(stream.try_next());
  bool came = false;
  CHECK(engine.run_until([&] { return came = came || stream.try_next(); }, 2h));
  CHECK(engine.now() < 1h + 1s);
  CHECK(engine.run_until([] { return true; }, 0ns));
}
