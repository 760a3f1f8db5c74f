#include "execution/step_prior.hpp"

#include "apps/console/steady_time.hpp"
#include "models/load.hpp"
#include "models/sources.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace paceline;

TEST_CASE(
    "what steps should cost is measured with the model's own weights, but not in a simulation") {
  for (const std::string name : {"cpu", "sim:10ms"}) {
    const auto time = std::make_shared<apps::SteadyTime>();
    const auto device =
        gpu::open_device(name, {.threads = 1, .time = time, .trace = nullptr}).value();
    const auto source = models::open_checkpoint("demo", "target").value();
    const auto stages = models::load_model(*source, {device}, {}).value();
    const auto prior = execution::measure_step_prior(*device, *stages.front());
    CHECK((prior.weights > 0) == (name == "cpu"));
    CHECK((prior.row > 0) == (name == "cpu"));
    CHECK(prior.experts == 0); // It is dense.
  }
}
