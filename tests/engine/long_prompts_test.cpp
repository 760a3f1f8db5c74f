// What streams notice of long prompts beside them, on a virtual clock.
#include "tests/engine/world.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::testing;
using namespace std::chrono_literals;

namespace {

constexpr int prompt_tokens = 1500;

EngineOptions options_for(int stages) {
  EngineOptions options = simulated({.context = 4096, .draft_context = 4096});
  options.devices.assign(std::size_t(stages), "sim:10ms+0.2ms/row");
  options.kv_memory_bytes = std::size_t(8) << 20;
  return options;
}

/// What the draft's longest window takes, and behind it a step of such a window in all stages, each
/// 2.5 times as long for the sake of prompts (limits::prompts_lengthen).
base::Duration longest_gap(int stages) {
  constexpr int window = 8;
  return base::from_seconds(stages * 2.5 * (0.010 + (window + 1) * 0.0002) + window * 0.00101);
}

Request with_prompt(int tokens, int answer, SpeculationMode mode, std::uint64_t seed) {
  Request request;
  for (int i = 0; i < tokens; ++i)
    request.prompt_tokens.push_back(TokenId((i * i + int(seed)) % 32));
  request.max_tokens = answer;
  request.ignore_eos = true;
  request.sampling.seed = seed;
  request.speculation = mode;
  return request;
}

} // namespace

TEST_CASE("a stream beside two prompts of 1,500 tokens waits 2.5 of its steps at most") {
  for (const int stages : {1, 3})
    for (const auto mode : {SpeculationMode::off, SpeculationMode::sync, SpeculationMode::overlap,
                            SpeculationMode::automatic})
      for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        CAPTURE(stages);
        CAPTURE(to_string(mode));
        CAPTURE(seed);
        EngineWorld world(options_for(stages), seed, exact_order);
        const auto stream = world.submit(with_prompt(16, 1200, mode, seed));
        const auto has = [&](std::size_t tokens) {
          return world.run_until([&] { return stream->answer.tokens.size() >= tokens; });
        };
        REQUIRE(has(100)); // what a step costs is known
        const std::vector prompts{world.submit(with_prompt(prompt_tokens, 4, mode, seed + 1)),
                                  world.submit(with_prompt(prompt_tokens, 4, mode, seed + 2))};
        base::Duration longest{};
        while (!prompts[0]->ended() || !prompts[1]->ended()) {
          const base::TimePoint before = world.now();
          REQUIRE(has(stream->answer.tokens.size() + 1));
          longest = std::max<base::Duration>(longest, world.now() - before);
        }
        CHECK(base::seconds(longest) <= base::seconds(longest_gap(stages)));
      }
}
