// The policy and the simulator: by hand, and beside the closed forms of M/D/1 queues.
#include "placement/cost.hpp"
#include "placement/estimate.hpp"
#include "placement/simulator.hpp"
#include "tests/placement/problems.hpp"
#include "tests/placement/queueing.hpp"

#include <array>
#include <doctest/doctest.h>
#include <numeric>

using namespace paceline;
using namespace paceline::placement;
using namespace paceline::testing;
using doctest::Approx;

namespace {

std::vector<Workload> poisson_runs(std::vector<Traffic> traffic, double seconds, int runs) {
  std::vector<Workload> all;
  for (int run = 0; run < runs; ++run)
    all.push_back(draw_workload(traffic, seconds, std::uint64_t(run)));
  return all;
}

double mean_latency(const Problem& problem, const Placement& placement,
                    const std::vector<Workload>& runs) {
  return measure(problem, placement, runs).mean_latency.mean;
}

} // namespace

TEST_CASE("stages cost what was measured, or what devices' overheads come to") {
  Model model{"m", 0.099, 1001, HUGE_VAL, {}};
  Devices devices;
  devices.hop_seconds = 0.004;
  devices.tensor_overhead = 0.36;
  const auto two = stage_seconds(model, {2, 1}, devices);
  REQUIRE(two.size() == 2);
  CHECK(two[0] == Approx(0.0515).epsilon(1e-9));
  CHECK(two[1] == two[0]);
  CHECK(stage_seconds(model, {1, 2}, devices)[0] == Approx(0.099 * 0.68));
  CHECK(stage_seconds(model, {1, 1}, devices)[0] == 0.099);
  devices.imbalance = 0.02;
  const auto four = stage_seconds(model, {4, 1}, devices);
  CHECK(std::accumulate(four.begin(), four.end(), 0.0) == Approx(0.099 + 3 * 0.004));
  CHECK(four.back() == Approx(1.02 * (0.099 + 3 * 0.004) / 4));
  model.measured[{2, 1}] = {{0.051, 0.052}};
  CHECK(stage_seconds(model, {2, 1}, devices) == std::vector{0.051, 0.052});
  CHECK(bytes_per_device(model, {2, 2}) == 251);
}

TEST_CASE("a placement beyond a device's memory is refused, and so is one that counts wrongly") {
  const Problem problem = alike(2, 1, 2);
  CHECK(check(simple_pair(), problem));
  CHECK(check(pipelined_pair(), problem));
  Placement crowded = simple_pair();
  crowded.groups[0].add(1);
  REQUIRE_FALSE(check(crowded, problem));
  CHECK(check(crowded, problem).error().text() ==
        "group 0 needs 28 bytes of each device, which has 14: place fewer models on it, or give it "
        "more devices");
  CHECK_FALSE(has_room(simple_pair().groups[0], 1, problem));
  CHECK(has_room({{0, 1}, {2, 1}, {0}}, 1, problem));
  CHECK_FALSE(check({{{{0}, {2, 1}, {}}}}, problem));
  CHECK_FALSE(check({{{{0}, {1, 1}, {}}, {{0}, {1, 1}, {}}}}, problem));
  CHECK_FALSE(check({{{{2}, {1, 1}, {}}}}, problem));
  CHECK_FALSE(check({{{{0}, {1, 1}, {2}}}}, problem));
  CHECK_FALSE(check({{{{0, 1}, {2, 1}, {0, 0}}}}, problem));
}

TEST_CASE("requests go through a pipeline as they came, each stage one at a time") {
  const Problem problem = alike(2, 2, 2);
  Dispatcher dispatcher(problem, pipelined_pair());
  CHECK(dispatcher.dispatch(0, 10, HUGE_VAL).finish == 12);
  CHECK(dispatcher.dispatch(1, 10, HUGE_VAL).finish == 13);
  CHECK(dispatcher.dispatch(0, 10.5, HUGE_VAL).finish == 14);
  CHECK(dispatcher.busy_until(0)[0] == 13);
  CHECK(dispatcher.busy_until(0)[1] == 14);
  CHECK(dispatcher.dispatch(0, 20, HUGE_VAL).finish == 22);
}

TEST_CASE("the group that would be done first is chosen, the first one of equals") {
  const Problem problem = alike(1, 2, 3);
  Dispatcher dispatcher(problem, {{{{0}, {1, 1}, {0}}, {{1, 2}, {1, 2}, {0}}}});
  CHECK(dispatcher.dispatch(0, 0, HUGE_VAL).group == 1);
  CHECK(dispatcher.dispatch(0, 0, HUGE_VAL).group == 0); // Both would be done at 2.
  CHECK(dispatcher.dispatch(0, 0, HUGE_VAL).group == 1);
  dispatcher.occupy(1, 10);
  CHECK(dispatcher.dispatch(0, 0, HUGE_VAL).group == 0);
  CHECK(dispatcher.dispatch(0, 0, HUGE_VAL).finish == 6);
}

TEST_CASE("what would be late, or lies nowhere, is refused and takes nobody's time") {
  const Problem problem = alike(2, 2, 1);
  Dispatcher dispatcher(problem, {{{{0}, {1, 1}, {0}}}});
  CHECK(dispatcher.dispatch(1, 0, HUGE_VAL).outcome == Dispatch::Outcome::not_placed);
  CHECK(dispatcher.dispatch(0, 0, 2).outcome == Dispatch::Outcome::accepted);
  const Dispatch late = dispatcher.dispatch(0, 0, 3);
  CHECK(late.outcome == Dispatch::Outcome::late);
  CHECK(late.group == 0);
  CHECK(late.finish == 4);
  CHECK(dispatcher.dispatch(0, 1, 4).finish == 4);
}

TEST_CASE("attainment counts requests that were refused, latencies those that were served") {
  Problem problem = alike(2, 1, 1);
  problem.models[0].objective_seconds = 1.5;
  const Workload workload{10, {{0, 0}, {0.25, 0}, {0.75, 0}, {5, 1}}};
  const Outcome outcome = simulate(problem, {{{{0}, {1, 1}, {0}}}}, workload);
  CHECK(outcome.requests == 4);
  CHECK(outcome.unserved == std::vector<std::size_t>{1, 1});
  CHECK(outcome.attainment() == 0.5);
  CHECK(outcome.latencies == std::vector{1.0, 1.25});
  CHECK(outcome.mean_latency() == 1.125);
  CHECK(outcome.quantile(0.99) == 1.25);
  CHECK(outcome.quantile(0.2) == 1);
  CHECK(outcome.busy_seconds == std::vector{2.0});
  CHECK(Outcome{}.attainment() == 1);
}

TEST_CASE("intervals are Student's") {
  const std::array values{1.0, 2.0, 3.0};
  CHECK(estimate(values).mean == 2);
  CHECK(estimate(values).half_width == Approx(4.303 / std::sqrt(3.0)));
  CHECK(estimate(std::span(values).first(1)).half_width == 0);
  CHECK(estimate({}).mean == 0);
}

TEST_CASE("overheads that split models may have are the paper's at a load of one") {
  CHECK(queueing::communication_bound(1) == Approx((14 - std::sqrt(52.0)) / 6));
  CHECK(queueing::communication_bound(1) == Approx(1.1315).epsilon(5e-5));
  CHECK(queueing::imbalance_bound(1) == Approx(1.2361).epsilon(5e-5));
  for (const double load : {0.2, 0.7, 1.3, 1.9}) {
    const double w = queueing::simple_latency(load, 1);
    const double alpha = queueing::communication_bound(load);
    CHECK(queueing::pipeline_latency(load, alpha, alpha / 2) == Approx(w));
    CHECK(queueing::pipeline_latency(load, 1, queueing::imbalance_bound(load) / 2) == Approx(w));
  }
}

TEST_CASE("simulated M/D/1 queues wait as long as the formula says") {
  const double d = bert_6b7_seconds;
  const Problem problem = alike(2, d, 2);
  const auto runs = poisson_runs({{1.5}, {1.5}}, 20'000, 8);
  const double simple = mean_latency(problem, simple_pair(), runs);
  const double pipelined = mean_latency(problem, pipelined_pair(), runs);
  CHECK(simple == Approx(queueing::simple_latency(3, d)).epsilon(0.02));
  CHECK(pipelined == Approx(queueing::pipeline_latency(3, d, d / 2)).epsilon(0.01));
  CHECK(std::abs(simple / pipelined - 1.26) < 0.03);
  CHECK(queueing::simple_latency(3, d) / queueing::pipeline_latency(3, d, d / 2) ==
        Approx(1.27).epsilon(0.004));
}

TEST_CASE("splitting pays most where one of the models has most of the requests") {
  const double d = bert_6b7_seconds;
  const Problem problem = alike(2, d, 2);
  const auto runs = poisson_runs({{0.6}, {2.4}}, 100'000, 10);
  const double ratio =
      mean_latency(problem, simple_pair(), runs) / mean_latency(problem, pipelined_pair(), runs);
  const double formula =
      queueing::simple_latency(3, d, 0.2) / queueing::pipeline_latency(3, d, d / 2);
  CHECK(formula == Approx(6.44).epsilon(0.001));
  CHECK(ratio == Approx(formula).epsilon(0.1));
}

TEST_CASE("bursts make splitting pay more") {
  const Problem problem = alike(2, bert_6b7_seconds, 2);
  const auto runs = poisson_runs({{1.5, 3}, {1.5, 3}}, 50'000, 10);
  const double ratio =
      mean_latency(problem, simple_pair(), runs) / mean_latency(problem, pipelined_pair(), runs);
  CHECK(std::abs(ratio - 1.94) < 0.1);
}
