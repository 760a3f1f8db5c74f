// Requests that are answered together: by hand, and the controller beside the simulator.
#include "placement/controller.hpp"
#include "placement/engines.hpp"
#include "placement/planner.hpp"
#include "placement/simulator.hpp"
#include "tests/placement/dice.hpp"
#include "tests/placement/problems.hpp"

#include <algorithm>
#include <doctest/doctest.h>

using namespace paceline;
using namespace paceline::placement;
using namespace paceline::testing;
using doctest::Approx;

namespace {

using Sent = Dispatch::Outcome;
constexpr double any_time = std::numeric_limits<double>::infinity();

/// Two requests at once take 1.5 times as long as one, four twice as long.
const std::vector<double> growth{1.5, 2};

Problem batched(int models, double latency, int devices, std::uint64_t memory = 14) {
  Problem problem = alike(models, latency, devices, memory);
  for (Model& model : problem.models)
    model.growth = growth;
  return problem;
}

Placement all_on_one(int models) {
  Placement placement = empty_groups({Shape{1, 1}});
  for (int model = 0; model < models; ++model)
    placement.groups[0].add(model);
  return placement;
}

std::vector<double> ends(Engines& engines, double until = any_time) {
  std::vector<Engines::End> ended;
  engines.run_until(until, ended);
  std::vector<double> seconds;
  for (const auto& end : ended)
    seconds.push_back(end.seconds);
  return seconds;
}

Engines one_engine(std::vector<double> stages = {1}) {
  Engines engines(1);
  engines.add(0, Pace({std::move(stages), growth}));
  return engines;
}

} // namespace

TEST_CASE("a batch takes as long as was measured, and what lies between on the line") {
  const Pace pace({{2}, growth});
  CHECK(pace.at_once() == 4);
  CHECK(pace.seconds(1) == 2);
  CHECK(pace.seconds(2) == 3);
  CHECK(pace.seconds(3) == Approx(3.5));
  CHECK(pace.seconds(4) == 4);
  CHECK(pace.load(1) == 1);
  CHECK(least_seconds({{2}, growth}) == 1);
  const Pace one_at_a_time({{0.5, 1}, {}}); // a request in each stage
  CHECK(one_at_a_time.at_once() == 2);
  CHECK(one_at_a_time.seconds(1) == 1.5);
  CHECK(one_at_a_time.load(1) == Approx(2. / 3));
  CHECK(one_at_a_time.seconds(2) == 2);
  CHECK(least_seconds({{0.5, 1}, {}}) == 1);
}

TEST_CASE("stages share what is under way, and an engine has no more of it for having stages") {
  const Problem problem = batched(1, 1, 4);
  const StageCosts two = stage_costs(problem.models[0], {2, 1}, problem.devices);
  CHECK(two.growth == std::vector{1.5});
  const Pace pace(two);
  CHECK(pace.at_once() == 4);
  CHECK(pace.seconds(2) == 1);
  CHECK(pace.seconds(3) == Approx(1.25)); // Batches of one and a half.
  CHECK(pace.seconds(4) == 1.5);
  CHECK(stage_costs(problem.models[0], {4, 1}, problem.devices).growth.empty());
  CHECK(side_by_side(problem));
  CHECK_FALSE(side_by_side(alike(1, 1, 4)));
}

TEST_CASE("requests that come together end together, and newcomers slow down what is under way") {
  Engines engines = one_engine();
  engines.send(0, 1, any_time);
  CHECK(engines.foresee(0).finish == 1.5);
  engines.send(0, 2, any_time);
  CHECK(ends(engines, 0.75).empty()); // Half of both is done.
  engines.send(0, 3, any_time);
  engines.send(0, 4, any_time);
  // Four get on by a half until 1.75; two of them are left with another half.
  const auto found = ends(engines);
  REQUIRE(found.size() == 4);
  CHECK(found[0] == Approx(1.75));
  CHECK(found[1] == Approx(1.75));
  CHECK(found[2] == Approx(2.5));
  CHECK(found[3] == Approx(2.5));
}

TEST_CASE("what is beyond the largest batch waits for a place") {
  Engines engines = one_engine();
  for (std::uint64_t number = 1; number <= 5; ++number)
    engines.send(0, number, any_time);
  CHECK(engines.idle_at() == 3);                       // Four until 2, and one more.
  CHECK(engines.foresee(0).finish == Approx(2 + 1.5)); // Two of them.
  CHECK(ends(engines, 2) == std::vector<double>(4, 2.0));
  engines.send(0, 6, any_time);
  CHECK(ends(engines) == std::vector<double>(2, 3.5));
}

TEST_CASE("a long queue is foreseen as if each of it were looked at") {
  Engines engines = one_engine();
  for (std::uint64_t number = 1; number <= 4000; ++number)
    engines.send(0, number, any_time);
  CHECK(engines.idle_at() == Approx(2000));
}

TEST_CASE("busy engines share devices, and slow each other beyond that by the contention") {
  for (const double contention : {1.0, 1.25}) {
    CAPTURE(contention);
    Engines engines(contention);
    engines.add(0, Pace({{1}, growth}));
    engines.add(1, Pace({{1}, growth}));
    engines.send(0, 1, any_time);
    engines.send(1, 2, any_time);
    CHECK(ends(engines) == std::vector<double>(2, 2 * contention));
  }
  Engines stages(1); // One request of each in two stages is no more than they can do.
  stages.add(0, Pace({{1, 1}, growth}));
  stages.add(1, Pace({{1, 1}, growth}));
  stages.send(0, 1, any_time);
  stages.send(1, 2, any_time);
  CHECK(ends(stages) == std::vector<double>(2, 2.0));
}

TEST_CASE("a request that would be late, or make another late, is refused") {
  Problem problem = batched(2, 1, 1, 28);
  problem.models[0].objective_seconds = 1.75;
  Dispatcher dispatcher(problem, all_on_one(2));
  CHECK(dispatcher.dispatch(0, 0, 1.75).outcome == Sent::accepted);
  CHECK(dispatcher.dispatch(0, 0, 1.75).outcome == Sent::accepted);
  const Dispatch late = dispatcher.dispatch(0, 0, 1.7);
  CHECK(late.outcome == Sent::late);
  CHECK(late.finish == Approx(1.75));
  // Another model's request has all the time of the world, but would take half of the device.
  CHECK(dispatcher.dispatch(1, 0, any_time).outcome == Sent::late);
  CHECK(dispatcher.run_until(1.5).size() == 2);
  CHECK(dispatcher.dispatch(1, 1.5, any_time).outcome == Sent::accepted);
}

TEST_CASE("attainment with batches counts what ended in time, and all that was accepted did") {
  Dice dice(3);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Problem problem = batched(3, 0.3, 3, 28);
    problem.devices.contention = seed % 2 == 0 ? 1 : 1.2;
    for (Model& model : problem.models)
      model.objective_seconds = 0.9;
    const Placement placement = dice.placement(problem);
    const Workload workload = draw_workload(std::vector<Traffic>(3, {5, 3}), 60, seed);
    const Outcome outcome = simulate(problem, placement, workload);
    CHECK(std::ranges::all_of(outcome.latencies, [](double one) { return one <= 0.9 + 1e-5; }));
    std::size_t unserved = 0;
    for (const std::size_t count : outcome.unserved)
      unserved += count;
    CHECK(unserved + outcome.latencies.size() == workload.arrivals.size());
  }
}

TEST_CASE("the more are answered at once, the more are answered in time") {
  Problem problem = alike(2, 0.4, 2);
  for (Model& model : problem.models)
    model.objective_seconds = 2;
  const auto traffic = std::vector<Traffic>(2, {2.5, 3});
  double before = 0;
  for (const std::vector<double>& each : {std::vector<double>{}, {1.2}, {1.2, 1.5}}) {
    for (Model& model : problem.models)
      model.growth = each;
    const double share =
        simulate(problem, simple_pair(), draw_workload(traffic, 2000, 1)).attainment();
    CHECK(share > before);
    before = share;
  }
}

TEST_CASE("a planner gives batches to few devices what one at a time takes more for") {
  Problem problem = batched(2, 0.4, 2, 28);
  for (Model& model : problem.models)
    model.objective_seconds = 1.2;
  const Workload workload = draw_workload(std::vector<Traffic>(2, {3, 3}), 200, 1);
  PlanOptions options;
  options.trials = 20;
  const Selection found = plan(problem, workload, options);
  CHECK(found.score.attainment ==
        Approx(simulate(problem, found.placement, workload).attainment()));
  for (Model& model : problem.models)
    model.growth.clear();
  CHECK(plan(problem, workload, options).score.attainment < found.score.attainment);
}

TEST_CASE("where all goes as expected the controller decides on batches as the simulator does") {
  Dice dice(4);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Problem problem = batched(3, 0.2, 3, 28);
    for (Model& model : problem.models)
      model.objective_seconds = 1;
    const Placement placement = dice.placement(problem);
    const Workload workload = draw_workload(std::vector<Traffic>(3, {8, 3}), 60, seed);
    Controller controller(problem, placement);
    Dispatcher dispatcher(problem, placement);
    std::vector<Controller::Ticket> tickets{{}};
    for (const auto& [now, model] : workload.arrivals) {
      for (const auto& end : dispatcher.run_until(now))
        controller.end(tickets[end.number], end.seconds);
      const auto routed = controller.begin(model, now, now + 1);
      const Dispatch simulated = dispatcher.dispatch(model, now, now + 1);
      REQUIRE(routed.dispatch.outcome == simulated.outcome);
      REQUIRE(routed.dispatch.finish == Approx(simulated.finish));
      REQUIRE(routed.dispatch.group == simulated.group);
      if (simulated.outcome == Sent::accepted)
        tickets.push_back(routed.ticket);
    }
  }
}

TEST_CASE("what is overdue holds up a batch, and what ends early makes room") {
  Controller controller(batched(1, 1, 1), all_on_one(1));
  const auto first = controller.begin(0, 0, any_time);
  CHECK(first.dispatch.finish == 1);
  const auto second =
      controller.begin(0, 3, any_time); // The first is overdue: it ends now, or later.
  CHECK(second.dispatch.finish == Approx(4));
  controller.end(first.ticket, 3.25);
  CHECK(controller.queue_seconds(0, 3.25) == Approx(1 - 0.25 / 1.5));
  controller.end(second.ticket, 3.5);
  CHECK(controller.queue_seconds(0, 3.5) == 0);
  std::vector<Controller::Ticket> five;
  for (int i = 0; i < 5; ++i)
    five.push_back(controller.begin(0, 4, any_time).ticket);
  CHECK(controller.queue_seconds(0, 4) == Approx(3));
  controller.end(five[2], 4); // The fifth has its place.
  CHECK(controller.queue_seconds(0, 4) == Approx(2));
  controller.end(five[4], 4);
  CHECK(controller.queue_seconds(0, 4) == Approx(1.75));
}

TEST_CASE("an overdue request makes nobody late by being late itself") {
  Controller controller(batched(1, 1, 1), all_on_one(1));
  controller.begin(0, 0, 1.5);
  CHECK(controller.begin(0, 5, 7).dispatch.outcome == Sent::accepted);
}

TEST_CASE("requests stay when models come and go, also where batches come or go with them") {
  const Problem single = alike(2, 1, 1, 28);
  const Problem several = batched(2, 1, 1, 28);
  Placement second_alone = all_on_one(2);
  second_alone.groups[0].remove(0);
  Controller controller(several, all_on_one(2));
  const auto first = controller.begin(0, 0, any_time);
  controller.begin(1, 0, any_time);
  controller.change(several, second_alone);
  CHECK(controller.queue_seconds(0, 0) == Approx(2)); // Both share the device until the end.
  controller.end(first.ticket, 0);
  CHECK(controller.queue_seconds(0, 0) == Approx(1));
  controller.change(single, all_on_one(2));
  CHECK(controller.begin(0, 0, any_time).dispatch.finish == Approx(2)); // One behind the other.
  controller.change(several, all_on_one(2));
  CHECK(controller.queue_seconds(0, 0) == Approx(2)); // Side by side again.
  CHECK(controller.open(0) == 2);
}
