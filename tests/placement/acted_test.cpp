// The simulator beside the actors that it stands for.
#include "placement/simulator.hpp"
#include "tests/placement/acted.hpp"
#include "tests/support/effort.hpp"

#include <cmath>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::testing;

TEST_CASE("actors serve the share of requests that the simulator says") {
  int in_stages = 0;
  int refusing = 0;
  for (int seed = 0; seed < effort(200); ++seed) {
    CAPTURE(seed);
    const ActedCase drawn = draw_case(std::uint64_t(seed), 200);
    const double simulated = simulate(drawn.problem, drawn.placement, drawn.workload).attainment();
    CHECK(std::abs(acted_attainment(drawn) - simulated) <= 0.01);
    refusing += simulated < 1 ? 1 : 0;
    for (const auto& group : drawn.placement.groups)
      in_stages += group.shape.pipeline > 1 ? 1 : 0;
  }
  CHECK(refusing > 0);
  CHECK(in_stages > 0);
}

TEST_CASE("an engine answers bursts together as fast as the simulator says") {
  for (const char* device : {"sim:20ms", "sim:20ms+2ms/row", "sim:7b@a100"})
    for (const int stages : {1, 2}) {
      CAPTURE(device);
      CAPTURE(stages);
      const TogetherLatencies found = together_latencies(device, stages);
      CHECK(found.most_at_once > 2 * std::size_t(stages));
      CHECK(found.engine_mean == doctest::Approx(found.simulated_mean).epsilon(0.1));
      CHECK(found.engine_p99 == doctest::Approx(found.simulated_p99).epsilon(0.1));
    }
}
