// Who answers while models come and go: queues that follow what happens, and moves that lose
// nothing.
#include "placement/controller.hpp"
#include "placement/limits.hpp"
#include "placement/moves.hpp"
#include "placement/simulator.hpp"
#include "tests/placement/dice.hpp"
#include "tests/placement/problems.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <map>
#include <optional>
#include <set>

using namespace paceline;
using namespace paceline::placement;
using namespace paceline::testing;
using doctest::Approx;

namespace {

using Sent = Dispatch::Outcome;
constexpr double none = std::numeric_limits<double>::infinity();

/// Two devices with room for both of two models of a second each.
Problem roomy() {
  return alike(2, 1, 2, 28);
}
Placement both_on_both() {
  return {{{{0}, {1, 1}, {0, 1}}, {{1}, {1, 1}, {0, 1}}}};
}

/// Groups that answer one request after the other, and take as long as they like for each.
class Servers {
public:
  Servers(Controller& controller, std::size_t groups, Dice& dice)
      : controller_(controller), queues_(groups), dice_(dice) {}

  void send(const Controller::Ticket& ticket, double now) {
    auto& queue = queues_[std::size_t(ticket.group)];
    const double begin = queue.empty() ? now : std::max(now, queue.back().second);
    queue.push_back({ticket, begin + dice_.exponential(1)});
    ++open;
  }
  void run_until(double now) {
    for (auto& queue : queues_)
      while (!queue.empty() && queue.front().second <= now) {
        controller_.end(queue.front().first, now);
        queue.pop_front();
        --open;
      }
  }
  int open = 0;

private:
  Controller& controller_;
  std::vector<std::deque<std::pair<Controller::Ticket, double>>> queues_;
  Dice& dice_;
};

/// Whether each device has room for what its groups hold.
bool fits(const Placement& placement, const Problem& problem) {
  std::vector<std::uint64_t> taken(std::size_t(problem.devices.count), 0);
  for (const Group& group : placement.groups)
    for (const int device : group.devices)
      taken[std::size_t(device)] += bytes_per_device(group, problem);
  return *std::max_element(taken.begin(), taken.end()) <= problem.devices.memory_bytes;
}

} // namespace

TEST_CASE("a request goes to the shortest expected queue, which is shorter when one ends early") {
  Controller controller(roomy(), both_on_both());
  const auto first = controller.begin(0, 0, none);
  const auto second = controller.begin(0, 0, none);
  CHECK(first.dispatch.group == 0);
  CHECK(second.dispatch.group == 1);
  CHECK(controller.begin(1, 0.1, none).dispatch.group == 0); // behind the first: done at 2
  CHECK(controller.queue_seconds(0, 0.1) == Approx(1.9));
  controller.end(first.ticket, 0.5); // half a second early, and so will be what is behind it
  CHECK(controller.queue_seconds(0, 0.5) == Approx(1));
  CHECK(controller.open(0) == 1);
  CHECK(controller.begin(0, 0.5, none).dispatch.finish == Approx(2)); // on the second device
}

TEST_CASE(
    "a request that is overdue holds up what is behind it, and is refused when that is late") {
  Problem problem = alike(1, 1, 1);
  Controller controller(problem, {{{{0}, {1, 1}, {0}}}});
  const auto first = controller.begin(0, 0, none);
  CHECK(controller.begin(0, 4, 5.5).dispatch.outcome == Sent::accepted); // done now, then a second
  CHECK(controller.queue_seconds(0, 4) == Approx(1));
  const auto late = controller.begin(0, 5, 6.5);
  CHECK(late.dispatch.outcome == Sent::late);
  CHECK(late.dispatch.finish == Approx(7));
  controller.end(first.ticket, 5);
  CHECK(controller.open(0) == 1);
}

TEST_CASE("a group without requests is idle, whatever was expected of it") {
  Controller controller(roomy(), both_on_both());
  std::vector<Controller::Ticket> tickets;
  for (int i = 0; i < 10; ++i)
    tickets.push_back(controller.begin(0, 0, none).ticket);
  std::reverse(tickets.begin(), tickets.end());
  for (const auto& ticket : tickets) // a batch: all at once, in any order
    controller.end(ticket, 0.5);
  CHECK(controller.queue_seconds(0, 0.5) == 0);
  CHECK(controller.queue_seconds(1, 0.5) == 0);
}

TEST_CASE("where all goes as expected the controller decides as the simulator does") {
  Dice dice(1);
  for (int seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    Problem problem = alike(3, 0.2, 3, 28);
    for (Model& model : problem.models) {
      model.latency_seconds = 0.1 + 0.1 * double(dice.below(4));
      model.objective_seconds = 1;
    }
    const Placement placement = dice.placement(problem);
    const Workload workload =
        draw_workload(std::vector<Traffic>(3, {4, 3}), 100, std::uint64_t(seed));
    Controller controller(problem, placement);
    Dispatcher dispatcher(problem, placement);
    std::multimap<double, Controller::Ticket> ends;
    for (const auto& [now, model] : workload.arrivals) {
      while (!ends.empty() && ends.begin()->first <= now) {
        controller.end(ends.begin()->second, ends.begin()->first);
        ends.erase(ends.begin());
      }
      const auto routed = controller.begin(model, now, now + 1);
      const Dispatch simulated = dispatcher.dispatch(model, now, now + 1);
      REQUIRE(routed.dispatch.outcome == simulated.outcome);
      REQUIRE(routed.dispatch.group == simulated.group);
      if (routed.dispatch.outcome == Sent::accepted)
        ends.emplace(routed.dispatch.finish, routed.ticket);
    }
  }
}

TEST_CASE("queues stay when models come and go, and new groups are empty") {
  Problem problem = roomy();
  Controller controller(problem, both_on_both());
  const auto one = controller.begin(0, 0, none);
  controller.begin(1, 0, none);
  controller.begin(1, 0, none);
  Placement next = both_on_both();
  next.groups[0].remove(0);
  next.groups.push_back({{2}, {1, 1}, {0}});
  problem.devices.count = 3;
  controller.change(problem, next);
  CHECK(controller.queue_seconds(0, 0) == Approx(2));
  CHECK(controller.open(0) == 2);
  CHECK(controller.begin(0, 0, none).dispatch.group == 2); // the second has something to do
  CHECK(controller.begin(0, 0, none).dispatch.group == 1); // and the first no longer has the model
  controller.end(one.ticket, 0.5); // sent there when the model was still there
  CHECK(controller.queue_seconds(0, 0.5) == Approx(1));
}

TEST_CASE("stages are as far with their work as they were when models come and go") {
  const Problem problem = alike(1, 1, 2);
  const Placement placement{{{{0, 1}, {2, 1}, {0}}}};
  Controller controller(problem, placement);
  controller.begin(0, 0, none); // leaves the first stage at 0.5, and the second at 1
  controller.change(problem, placement);
  CHECK(controller.begin(0, 0, none).dispatch.finish == Approx(1.5));
}

TEST_CASE("what came is remembered for a while, and the oldest is forgotten") {
  Controller controller(roomy(), both_on_both());
  for (int second = 0; second < 10; ++second)
    controller.note(second % 2, second);
  const Workload last = controller.observed(10, 3.5);
  CHECK(last.seconds == 3.5);
  REQUIRE(last.arrivals.size() == 3);
  CHECK(last.arrivals[0].seconds == 0.5);
  CHECK(last.arrivals[0].model == 1);
  for (std::size_t i = 0; i < limits::observed_max; ++i)
    controller.note(0, 20);
  CHECK(controller.observed(20, 100).arrivals.size() == limits::observed_max);
}

TEST_CASE("from any placement to any other there are moves that fit, each towards it") {
  Dice dice(2);
  int unplaced_for_a_while = 0;
  for (int run = 0; run < 300; ++run) {
    CAPTURE(run);
    Problem problem = alike(2 + int(dice.below(4)), 1, 1 + int(dice.below(4)), 10, 1);
    for (Model& model : problem.models)
      model.memory_bytes = 2 + dice.below(8);
    const Placement wanted = dice.placement(problem);
    Placement now = dice.placement(problem);
    std::size_t moves = 0;
    for (std::size_t g = 0; g < now.groups.size(); ++g)
      moves += now.groups[g].models.size() + wanted.groups[g].models.size();
    while (const auto move = next_move(problem, now, wanted)) {
      REQUIRE(moves-- > 0);
      Group& group = now.groups[std::size_t(move->group)];
      const bool load = move->kind == Move::Kind::load;
      REQUIRE(group.hosts(move->model) != load);
      REQUIRE(wanted.groups[std::size_t(move->group)].hosts(move->model) == load);
      load ? group.add(move->model) : group.remove(move->model);
      REQUIRE(fits(now, problem));
      unplaced_for_a_while += wanted.hosts(move->model) && !now.hosts(move->model);
    }
    CHECK(now == wanted);
  }
  CHECK(unplaced_for_a_while > 0); // full devices that change models
}

TEST_CASE("a model keeps a place on the way wherever there is room for it") {
  const Problem problem = alike(2, 1, 3);
  const Placement now{{{{0}, {1, 1}, {0}}, {{1}, {1, 1}, {1}}, {{2}, {1, 1}, {}}}};
  const Placement wanted{{{{0}, {1, 1}, {1}}, {{1}, {1, 1}, {0}}, {{2}, {1, 1}, {0}}}};
  CHECK(next_move(problem, now, wanted) == Move{Move::Kind::load, 2, 0});
  Placement next = now;
  next.groups[2].add(0);
  CHECK(next_move(problem, next, wanted) == Move{Move::Kind::unload, 0, 0}); // it has another
}

TEST_CASE("a group whose devices other groups have waits until those give them up") {
  const Problem problem = alike(2, 1, 2);
  const Placement apart{{{{0}, {1, 1}, {0}}, {{1}, {1, 1}, {1}}, {{0, 1}, {2, 1}, {}}}};
  const Placement together{{{{0}, {1, 1}, {}}, {{1}, {1, 1}, {}}, {{0, 1}, {2, 1}, {0, 1}}}};
  Placement now = apart;
  std::string kinds;
  while (const auto move = next_move(problem, now, together)) {
    const bool load = move->kind == Move::Kind::load;
    Group& group = now.groups[std::size_t(move->group)];
    load ? group.add(move->model) : group.remove(move->model);
    kinds += load ? '+' : '-';
  }
  CHECK(kinds == "--++"); // half of a model has no room beside another one
  CHECK(now == together);
}

TEST_CASE("a plan that only exchanges devices moves nothing") {
  const Problem problem = alike(3, 1, 3);
  const Placement now{{{{0}, {1, 1}, {0}}, {{1}, {1, 1}, {1}}, {{2}, {1, 1}, {2}}}};
  Placement wanted = now;
  wanted.groups[0].models = {2};
  wanted.groups[1].models = {0};
  wanted.groups[2].models = {1};
  CHECK(nearest(now, wanted) == now);
  CHECK_FALSE(worth_moving({0.9, 1}, {0.905, 1}));
  CHECK_FALSE(worth_moving({0.9, 1}, {0.8, 0.1}));
  CHECK(worth_moving({0.9, 1}, {0.92, 2}));
  CHECK(worth_moving({1, 1}, {1, 0.8}));
}

TEST_CASE("whatever moves, no request is lost, ended twice or sent where its model is not") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Dice dice(seed);
    Problem problem = alike(4, 0.5, 3, 28);
    for (Model& model : problem.models)
      model.objective_seconds = 4;
    Placement held = dice.placement(problem);
    Placement wanted = held;
    Controller controller(problem, held);
    Servers servers(controller, held.groups.size(), dice);
    int accepted = 0;
    double now = 0;
    for (int step = 0; step < 500; ++step) {
      now += dice.exponential(0.2);
      servers.run_until(now);
      if (dice.below(10) == 0)
        wanted = dice.placement(problem);
      if (const auto move = next_move(problem, held, wanted); move && dice.below(3) == 0) {
        Group& group = held.groups[std::size_t(move->group)];
        move->kind == Move::Kind::load ? group.add(move->model) : group.remove(move->model);
        controller.change(problem, held);
      }
      const int model = int(dice.below(4));
      const auto routed = controller.begin(model, now, now + 4);
      if (routed.dispatch.outcome != Sent::accepted)
        continue;
      REQUIRE(held.groups[std::size_t(routed.dispatch.group)].hosts(model));
      REQUIRE(routed.dispatch.finish <= now + 4 + 1e-6);
      servers.send(routed.ticket, now);
      ++accepted;
    }
    CHECK(accepted > 50);
    servers.run_until(1e9);
    CHECK(servers.open == 0);
    for (int group = 0; group < int(held.groups.size()); ++group) {
      CHECK(controller.open(group) == 0);
      CHECK(controller.queue_seconds(group, now) < 1e9);
    }
  }
}
