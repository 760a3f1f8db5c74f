#include "tests/placement/pays.hpp"

#include "apps/laboratory/plan/measure.hpp"
#include "placement/planner.hpp"
#include "tests/placement/points.hpp"
#include "tests/placement/problems.hpp"

#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <functional>
#include <initializer_list>
#include <stdexcept>

namespace paceline::testing {
using namespace placement;

namespace {

/// Eight models of 2.7B on eight devices that hold one each, half busy.
Point eight() {
  Point point;
  add_models(point.models, "bert-2.7b", 8, 0.238, 5.4);
  point.devices = 8;
  point.gigabytes = 5.5;
  point.rate = 0.5 * 8 / 0.238;
  point.trials = 20;
  return point;
}

void pays_row(const char* condition, const std::string& value, const Point& point) {
  const auto found = measure_point(point).attainment;
  fmt::print("| {} | {} | {} | {} | {:.1f} |\n", condition, value, cell(found[0]), cell(found[1]),
             100 * (found[0].mean - found[1].mean));
  std::fflush(stdout);
}

void pays_rows(const char* condition, std::initializer_list<double> values,
               const std::function<std::string(Point&, double)>& change) {
  for (const double value : values) {
    Point point = eight();
    const std::string shown = change(point, value);
    pays_row(condition, shown, point);
  }
}

/// Returns the highest rate at which that share of the requests of two models is in time.
double highest_rate(const Placement& placement, double cv, double share) {
  Problem problem = alike(2, bert_6b7_seconds, 2);
  for (Model& model : problem.models)
    model.objective_seconds = 5 * model.latency_seconds;
  double low = 1e-3, high = 2 / bert_6b7_seconds;
  while (high / low > 1.005) {
    const double rate = std::sqrt(low * high);
    const Workload run = draw_workload(std::vector<Traffic>(2, {rate / 2, cv}), 100'000 / rate, 1);
    (simulate(problem, placement, run).attainment() >= share ? low : high) = rate;
  }
  return low;
}

void print_rates() {
  fmt::print("\n| CV | in time | a device each, requests/s | both in two stages | ratio |\n"
             "|---|---|---|---|---|\n");
  for (const double cv : {1.0, 2.0, 3.0, 4.0})
    for (const double share : {0.8, 0.9, 0.99}) {
      const double simple = highest_rate(simple_pair(), cv, share);
      const double pipelined = highest_rate(pipelined_pair(), cv, share);
      if (simple > 0.01)
        fmt::print("| {:g} | {:g} % | {:.2f} | {:.2f} | {:.1f} |\n", cv, 100 * share, simple,
                   pipelined, pipelined / simple);
    }
}

constexpr int prompt_tokens = 256;
constexpr int output_tokens = 64;

/// Four models of 7B on four A100 that hold two of them, with costs as `plan --measure` finds them.
Point four_of_7b() {
  const auto costs = apps::plan::measure_costs({"scripted:vocabulary=32,memory=1,context=1024",
                                                "none",
                                                prompt_tokens,
                                                output_tokens,
                                                {"sim:7b@a100"}},
                                               {.max_pipeline = 1,
                                                .max_tensor = 1,
                                                .text = "All models answer the same prompts here.",
                                                .progress = {}});
  if (!costs)
    throw std::runtime_error(costs.error().text());
  const StageCosts& cost = costs->at({1, 1});
  fmt::print("{:.3f} s alone; 2, 4, ... at once take {:.3f} times as long\n", cost.seconds.front(),
             fmt::join(cost.growth, ", "));
  Point point;
  add_models(point.models, "7b", 4, cost.seconds.front(), 14);
  for (Model& model : point.models)
    model.growth = cost.growth;
  point.devices = 4;
  point.gigabytes = 30;
  point.trials = 20;
  return point;
}

Point without_batches(Point point) {
  for (Model& model : point.models)
    model.growth.clear();
  return point;
}

} // namespace

void print_pays() {
  fmt::print(
      "| condition | | plan | selective replication | gain, points |\n|---|---|---|---|---|\n");
  pays_rows("memory, models a device", {1, 2, 4, 8}, [](Point& point, double value) {
    point.gigabytes = value * 5.5;
    return fmt::format("{:g}", value);
  });
  pays_rows("rate, share of what devices can do", {0.1, 0.3, 0.5, 0.7, 0.9},
            [](Point& point, double value) {
              point.rate = value * 8 / 0.238;
              return fmt::format("{:g}", value);
            });
  pays_rows("bursts, CV", {1, 2, 4, 6}, [](Point& point, double value) {
    point.cv = value;
    return fmt::format("{:g}", value);
  });
  pays_rows("objective, times the latency", {1, 2, 5, 10, 20}, [](Point& point, double value) {
    point.scale = value;
    return fmt::format("{:g}", value);
  });
  print_rates();
}

void print_batches() {
  const Point base = four_of_7b();
  const double alone = base.models.front().latency_seconds;
  fmt::print("\n| requests/s | of what devices do one at a time | one at a time | in batches |\n"
             "|---|---|---|---|\n");
  for (const double load : {0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0}) {
    Point point = base;
    point.rate = load * base.devices / alone;
    fmt::print("| {:.1f} | {:g} | {} | {} |\n", point.rate, load,
               cell(measure_point(without_batches(point)).attainment[0]),
               cell(measure_point(point).attainment[0]));
    std::fflush(stdout);
  }
}

} // namespace paceline::testing
