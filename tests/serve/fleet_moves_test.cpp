// Models that come and go at random while requests for them run.
#include "tests/serve/live_fleet.hpp"
#include "tests/support/effort.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <fmt/format.h>
#include <map>
#include <random>
#include <thread>

using namespace paceline;
using namespace paceline::testing;
using apps::serve::FleetPlan;

namespace {

constexpr int models = 3;
constexpr int devices = 3;

std::string name_of(std::uint64_t model) {
  return std::string(1, char('a' + model % models));
}

/// Twenty tokens of a model, which are its own.
HttpReply ask_for_text(const LiveFleet& fleet, const std::string& model) {
  return fleet.ask("POST", "/v1/completions",
                   fmt::format(R"({{"model": "{}", "prompt": [1, 2], "max_tokens": 20,
                                    "temperature": 0, "ignore_eos": true}})",
                               model));
}

std::string text_of(const HttpReply& reply) {
  return std::string(reply.json().at("choices").at(0).at("text").as_string());
}

/// Each model on each device that has room.
FleetPlan everywhere() {
  FleetPlan plan = fleet_plan(models, 2 * models, {{0, 1, 2}, {0, 1, 2}, {0, 1, 2}});
  for (placement::Model& model : plan.problem.models)
    model.memory_bytes = 2;
  return plan;
}

/// Some of them on some groups: of a device each, or of two side by side and one.
FleetPlan anywhere(std::mt19937_64& random) {
  FleetPlan plan = everywhere();
  plan.problem.devices.memory_bytes = 4;
  const auto first = int(random() % devices);
  if (random() % 2 == 0)
    plan.placement.groups = {{{first, (first + 1) % devices}, {2, 1}, {}},
                             {{(first + 2) % devices}, {1, 1}, {}}};
  for (placement::Group& group : plan.placement.groups) {
    group.models.clear();
    for (int model = 0; model < models; ++model)
      if (random() % 2 == 0 && has_room(group, model, plan.problem))
        group.add(model);
  }
  return plan;
}

/// A thing that an operator does, or that happens to one.
void disturb(LiveFleet& fleet, std::mt19937_64& random) {
  const std::string model = fmt::format(R"({{"model": "{}"}})", name_of(random()));
  switch (random() % 5) {
  case 0: fleet.manage("/v1/unload", model); break;
  case 1: fleet.manage("/v1/load", model); break;
  case 2: fleet.break_checkpoints({"checkpoint-" + name_of(random())}); break;
  default: fleet.change(anywhere(random)); break;
  }
}

} // namespace

TEST_CASE("whatever moves and fails, each request ends once, and with its own model's answer") {
  for (int seed = 0; seed < (sanitized ? 1 : 2); ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(std::uint64_t(seed) + 1);
    LiveFleet fleet(everywhere());
    std::map<std::string, std::string> texts;
    for (int model = 0; model < models; ++model)
      texts[name_of(std::uint64_t(model))] =
          text_of(ask_for_text(fleet, name_of(std::uint64_t(model))));
    REQUIRE(texts["a"] != texts["b"]);
    std::atomic<bool> over = false;
    std::atomic<int> answered = 0;
    std::atomic<int> wrong = 0;
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i)
      clients.emplace_back([&, own = std::mt19937_64(std::uint64_t(seed * 10 + i))]() mutable {
        while (!over) {
          const std::string model = name_of(own());
          const HttpReply reply = ask_for_text(fleet, model);
          if (reply.status == 200)
            (text_of(reply) == texts.at(model) ? answered : wrong) += 1;
          else // the operator has unloaded it, or it could not be loaded
            wrong += reply.status != 404 && reply.status != 503;
        }
      });
    for (int step = 0; step < 30; ++step) {
      disturb(fleet, random);
      if (step % 3 != 0)
        continue;
      fleet.change(everywhere()); // so that somebody is answered
      for (const int before = answered; answered == before;)
        std::this_thread::yield();
    }
    fleet.break_checkpoints({});
    fleet.change(everywhere());
    fleet.await_models("a:d0,d1,d2 b:d0,d1,d2 c:d0,d1,d2");
    over = true;
    for (std::thread& client : clients)
      client.join();
    CHECK(wrong == 0);
    CHECK(answered > 0);
    for (const auto& [model, text] : texts)
      CHECK(text_of(ask_for_text(fleet, model)) == text);
    for (const char* group : {"d0", "d1", "d2", "d0+d1", "d1+d2"})
      CHECK(fleet.metric(fmt::format("paceline_group_requests_running{{device=\"{}\"}}", group)) ==
            0);
  }
}
