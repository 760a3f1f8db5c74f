// Pages: shared, grown, taken away, given back.
#include "tests/engine/world.hpp"

#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::testing;

namespace {

Request request_of(int prompt_tokens, int max_tokens, int salt = 0) {
  Request request;
  for (int i = 0; i < prompt_tokens; ++i)
    request.prompt_tokens.push_back((i * i + 3 * i + salt) % 32);
  request.max_tokens = max_tokens;
  return request;
}

void check_idle(const Metrics& m) {
  CHECK(m.running == 0);
  CHECK(m.waiting == 0);
  CHECK(m.kv_pages_used == 0);
  CHECK(m.kv_pages_quarantined == 0);
}

} // namespace

TEST_CASE("wherever a request is cancelled, it ends once and its pages come back") {
  for (const SpeculationMode mode : {SpeculationMode::off, SpeculationMode::sync,
                                     SpeculationMode::overlap, SpeculationMode::automatic})
    for (int steps = 0; steps < 150; ++steps) {
      CAPTURE(std::string(to_string(mode)));
      CAPTURE(steps);
      EngineOptions options = simulated();
      options.speculation = mode;
      options.page_tokens = 4;
      EngineWorld world(options, std::uint64_t(steps));
      const auto doomed = world.submit(request_of(20, 60));
      const auto other = world.submit(request_of(9, 40, 5));
      for (int i = 0; i < steps; ++i)
        world.step();
      world.cancel(1);
      REQUIRE(world.run_until_ended({doomed, other}));
      CHECK(doomed->answer.end().reason == FinishReason::cancelled);
      CHECK(other->answer.tokens.size() == 40);
      world.run();
      check_idle(world.metrics());
    }
}
