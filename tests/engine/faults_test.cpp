// Promise 4: an actor that dies costs time, never tokens; every request ends once.
#include "tests/engine/world.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace paceline;
using namespace paceline::testing;

namespace {

constexpr int requests = 3;

Request request_number(int index) {
  Request request;
  for (int i = 0; i < 10 + 9 * index; ++i)
    request.prompt_tokens.push_back((i * i + 3 * i + index) % 32);
  request.max_tokens = 40;
  request.prompt_logprobs = index == 1;
  if (index == 2) {
    request.sampling.temperature = 0.8f;
    request.sampling.presence_penalty = 0.5f;
    request.sampling.seed = 5;
  }
  return request;
}

EngineOptions options_for(std::uint64_t seed) {
  constexpr std::array modes{SpeculationMode::off, SpeculationMode::sync, SpeculationMode::overlap,
                             SpeculationMode::automatic};
  EngineOptions options = simulated();
  options.speculation = modes[seed % modes.size()];
  options.page_tokens = 4;
  options.prefill_chunk = seed % 3 ? 512 : 7;
  return options;
}

std::vector<std::vector<TokenId>> undisturbed() {
  EngineOptions options = simulated();
  options.speculation = SpeculationMode::off;
  Engine engine = open_engine(options);
  std::vector<std::vector<TokenId>> all;
  for (int i = 0; i < requests; ++i)
    all.push_back(ask(engine, request_number(i)).tokens);
  return all;
}

enum Victim { scheduler, draft, target, sampler, kv_cache, victims };

void kill(EngineWorld& world, int victim) {
  const messages::ActorHandles handles = world.handles();
  switch (victim) {
  case scheduler: return world.kill(handles.scheduler);
  case target: return world.kill(handles.stages.at(0));
  case sampler: return world.kill(handles.sampler);
  case kv_cache: return world.kill(handles.kv_cache);
  default:
    if (handles.draft)
      world.kill(handles.draft);
  }
}

} // namespace

TEST_CASE("whatever actor dies, whenever: every request ends once, with the same tokens") {
  const auto expected = undisturbed();
  std::array<std::uint64_t, victims> killed{};
  for (std::uint64_t seed = 0; seed < 250; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    EngineWorld world(options_for(seed), seed);
    std::vector<std::shared_ptr<Recorder>> answers;
    for (int i = 0; i < requests; ++i)
      answers.push_back(world.submit(request_number(i)));
    for (std::uint64_t n = 0; n < 1 + seed % 3; ++n) {
      for (auto steps = random() % 400; steps > 0; --steps)
        world.step();
      const auto victim = int(random() % victims);
      CAPTURE(victim);
      kill(world, victim);
      ++killed[std::size_t(victim)];
    }
    REQUIRE(world.run_until_ended(answers));
    for (int i = 0; i < requests; ++i) {
      CAPTURE(i);
      const Answer& answer = answers[std::size_t(i)]->answer;
      CHECK(answer.end().reason == FinishReason::length);
      CHECK(answer.tokens == expected[std::size_t(i)]);
      CHECK(answer.prompt.size() == std::size_t(i == 1));
    }
    world.run();
    const Metrics metrics = world.metrics();
    CHECK(metrics.kv_pages_used == 0);
    CHECK(metrics.kv_pages_quarantined == 0);
    CHECK(metrics.running == 0);
  }
  for (const std::uint64_t count : killed)
    CHECK(count > 30);
}
