// The search: beside all placements of small problems, and beside its baselines.
#include "placement/baselines.hpp"
#include "placement/planner.hpp"
#include "placement/random.hpp"
#include "tests/placement/exhaustive.hpp"
#include "tests/placement/problems.hpp"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <set>

using namespace paceline;
using namespace paceline::placement;
using namespace paceline::testing;

namespace {

struct Case {
  Problem problem;
  Workload workload;
};

double uniform(Random& random, double low, double high) {
  return low + (high - low) * double(random()) * 0x1p-32;
}

/// Two or three models on two to four devices that hold one to three of them, at loads that not
/// every placement serves.
Case small_case(std::uint64_t seed) {
  Random random(seed, Draws::moves, 77);
  Case one;
  one.problem.devices = {2 + int(random() % 3), 100, 0.004, 0.36, 0.02};
  std::vector<Traffic> traffic;
  const int models = 2 + int(random() % 2);
  const double load = uniform(random, 0.4, 1.2) * one.problem.devices.count / models;
  for (int m = 0; m < models; ++m) {
    const double latency = uniform(random, 0.1, 0.5);
    one.problem.models.push_back({"m" + std::to_string(m),
                                  latency,
                                  30 + random() % 60,
                                  latency * uniform(random, 1.5, 8),
                                  {}});
    traffic.push_back({uniform(random, 0.5, 1.5) * load / latency, uniform(random, 1, 4)});
  }
  one.workload = draw_workload(traffic, 60, seed);
  return one;
}

/// Models of two latencies, bursty, on as many devices as it takes to hold each twice.
Case bursty_case(int models, int devices) {
  Case one;
  one.problem = alike(models, 0.2, devices, 16, 8);
  std::vector<Traffic> traffic;
  for (const double rate : power_law_rates(0.6 * devices / 0.2, models, 0.5)) {
    one.problem.models[traffic.size()].objective_seconds = 1;
    traffic.push_back({rate, 4});
  }
  for (int m = 0; m < models; m += 2) {
    one.problem.models[std::size_t(m)].latency_seconds = 0.1;
    one.problem.models[std::size_t(m)].objective_seconds = 0.5;
  }
  one.problem.devices.hop_seconds = 0.004;
  one.problem.devices.tensor_overhead = 0.36;
  one.workload = draw_workload(traffic, 60, 5);
  return one;
}

PlanOptions quick(int trials = 150) {
  PlanOptions options;
  options.trials = trials;
  options.threads = 2;
  return options;
}

const Stop never = [] { return false; };

} // namespace

TEST_CASE("the planner is within a hundredth of the best of all placements") {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Case one = small_case(seed);
    const double best = Exhaustive(one.problem, one.workload).attainment();
    const Selection found = plan(one.problem, one.workload, quick());
    CAPTURE(seed);
    CHECK(check(found.placement, one.problem));
    CHECK(found.score.attainment <= best + 1e-12);
    CHECK(found.score.attainment >= 0.99 * best);
    compared += best < 1;
  }
  CHECK(compared >= 30); // Where all is served there is nothing to find.
}

TEST_CASE("a plan serves no less than each baseline on the workload it was made for") {
  const Case one = bursty_case(12, 12);
  PlanOptions options = quick(100);
  options.seeds = {replicate_selectively(one.problem, one.workload, 2, never).placement,
                   one_per_device(one.problem, one.workload), round_robin(one.problem)};
  const Selection found = plan(one.problem, one.workload, options);
  CHECK(check(found.placement, one.problem));
  const auto served = [&](const Placement& placement) {
    REQUIRE(check(placement, one.problem));
    return simulate(one.problem, placement, one.workload).attainment();
  };
  CHECK(found.score.attainment == served(found.placement));
  const Selection replicated = replicate_selectively(one.problem, one.workload, 2, never);
  CHECK(found.score.attainment >= replicated.score.attainment);
  CHECK(found.score.attainment > served(one_per_device(one.problem, one.workload)));
  CHECK(found.score.attainment > served(round_robin(one.problem)));
  CHECK(found.score.attainment > replicated.score.attainment + 0.01); // Splitting pays.
}

TEST_CASE("a plan is the same whatever the threads, and another by another seed only at the end") {
  const Case one = bursty_case(6, 9);
  PlanOptions options = quick(100);
  const Selection two = plan(one.problem, one.workload, options);
  options.threads = 1;
  const Selection alone = plan(one.problem, one.workload, options);
  CHECK(two.placement == alone.placement);
  CHECK(two.simulations == alone.simulations);
}

TEST_CASE("a search that is stopped gives the best it has, at whatever moment") {
  const Case one = bursty_case(6, 9);
  double least = 1;
  for (const int after : {0, 1, 7, 50, 300, 1000}) {
    std::atomic<int> asked = 0;
    PlanOptions options = quick(100);
    options.threads = 1;
    options.stop = [&] { return asked++ >= after; };
    const Selection found = plan(one.problem, one.workload, options);
    CAPTURE(after);
    CHECK(check(found.placement, one.problem));
    CHECK(found.score.attainment ==
          simulate(one.problem, found.placement, one.workload).attainment());
    CHECK(found.score.attainment > 0.3);
    least = std::min(least, found.score.attainment);
  }
  CHECK(least < plan(one.problem, one.workload, quick(100)).score.attainment);
}

TEST_CASE("progress is told, to the end of each part") {
  const Case one = bursty_case(3, 4);
  PlanOptions options = quick(20);
  std::set<std::string> ended;
  options.progress = [&](const std::string& part, double done) {
    if (done == 1)
      ended.insert(part);
  };
  plan(one.problem, one.workload, options);
  CHECK(ended == std::set<std::string>{"groups", "improvements", "models"});
}

TEST_CASE("a model that no device holds is split, and one that nothing holds is left out") {
  Problem problem = alike(2, 1, 4, 14, 30);
  problem.models[1].memory_bytes = 100;
  const Workload workload{10, {{0, 0}, {1, 1}}};
  const Selection found = plan(problem, workload, quick(50));
  CHECK(found.score.attainment == 0.5);
  REQUIRE(check(found.placement, problem));
  CHECK(one_per_device(problem, workload).groups[0].models.empty());
}

TEST_CASE("groups that are there stay as they are, and models are planned on them") {
  const Problem problem = alike(3, 0.1, 4, 14, 14);
  const Workload workload{1, {{0, 0}, {0.1, 1}, {0.2, 2}}};
  PlanOptions options = quick(50);
  options.groups = {{1, 1}, {2, 1}, {1, 1}};
  const Placement placed = plan(problem, workload, options).placement;
  REQUIRE(placed.groups.size() == 3);
  for (std::size_t g = 0; g < placed.groups.size(); ++g)
    CHECK(placed.groups[g].shape == options.groups[g]);
  CHECK(check(placed, problem));
  CHECK(simulate(problem, placed, workload).attainment() == 1);
}

TEST_CASE("layouts use all devices, and have every mix of shapes where there are few") {
  const Problem problem = alike(1, 1, 4);
  const auto of_four = layouts(problem, 4, {});
  CHECK(of_four.size() == 9);
  CHECK(of_four.front() == std::vector<Shape>(4, {1, 1}));
  for (const int devices : {1, 3, 8, 11, 64})
    for (const auto& layout : layouts(problem, devices, {})) {
      int used = 0;
      for (const Shape shape : layout)
        used += shape.devices();
      CHECK(used == devices);
    }
  Problem hurried = problem;
  hurried.models[0].objective_seconds = 0.9; // Only several devices together answer in time.
  hurried.devices.hop_seconds = 0.1;
  for (const auto& layout : layouts(hurried, 64, {}))
    CHECK((layout[0] == Shape{1, 1} || layout[0].tensor > 1));
}

TEST_CASE("models are divided where their latencies differ most, and devices by their work") {
  Problem problem = alike(4, 0.1, 8);
  problem.models[0].latency_seconds = 0.4;
  problem.models[2].latency_seconds = 0.11;
  const auto ways = bucketings(problem);
  REQUIRE(ways.size() == 2);
  CHECK(ways[0] == std::vector<Bucket>{{0, 1, 2, 3}});
  CHECK(ways[1] == std::vector<Bucket>{{1, 2, 3}, {0}});
  const Workload workload{1, {{0, 0}, {0, 1}, {0, 1}, {0, 1}, {0, 1}}};
  const auto devices = shares(problem, workload, ways[1], 8);
  CHECK(devices.front() == std::vector{4, 4});
  for (const auto& share : devices)
    CHECK(share[0] + share[1] == 8);
  CHECK(shares(problem, workload, ways[1], 1).empty());
}

TEST_CASE("replacing in windows follows requests, one window behind") {
  const Problem problem = alike(2, 1, 1, 14, 14);
  // The device holds one model; each is asked for in two windows of ten seconds in turn.
  Workload workload{40, {}};
  for (int second = 0; second < 40; second += 2)
    workload.arrivals.push_back({double(second), second < 20 ? 0 : 1});
  const Placement first{{{{0}, {1, 1}, {0}}}};
  CHECK(simulate(problem, first, workload).attainment() == 0.5);
  const Outcome replaced = replace_in_windows(problem, first, workload, 10);
  CHECK(replaced.requests == 20);
  CHECK(replaced.attainment() == 0.75);
}

TEST_CASE("windows are as many as have requests, however long a silence is") {
  const Problem problem = alike(2, 1, 1, 14, 14);
  const auto replaced = [&](double silence) {
    Workload workload{silence + 20, {{0, 1}, {1, 1}}};
    for (int second = 0; second < 20; second += 2)
      workload.arrivals.push_back({silence + second, second < 10 ? 0 : 1});
    return replace_in_windows(problem, {{{{0}, {1, 1}, {0}}}}, workload, 10).latencies.size();
  };
  CHECK(replaced(30) == replaced(3e15));
  CHECK(replaced(30) == 5); // After a window without requests both models are alike.
}

TEST_CASE("a device that is busy across a window's end stays busy") {
  const Problem problem = alike(1, 4, 1);
  const Workload workload{20, {{9, 0}, {10, 0}}};
  const Outcome outcome = replace_in_windows(problem, {{{{0}, {1, 1}, {0}}}}, workload, 10);
  CHECK(outcome.latencies == std::vector{4.0, 7.0});
}

TEST_CASE("round robin places models in turn on pipelines of four stages") {
  const Placement placement = round_robin(alike(3, 1, 6, 14, 14));
  REQUIRE(placement.groups.size() == 2);
  CHECK(placement.groups[0].shape == Shape{4, 1});
  CHECK(placement.groups[1].shape == Shape{2, 1});
  CHECK(placement.groups[0].models == std::vector{0, 1, 2});
  CHECK(placement.groups[1].models.size() == 2);
}
