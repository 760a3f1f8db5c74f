#include "tests/placement/points.hpp"

#include "placement/baselines.hpp"
#include "placement/planner.hpp"

#include <chrono>
#include <cmath>
#include <fmt/format.h>

namespace paceline::testing {
using namespace placement;

Problem Point::problem() const {
  Problem all{models, {devices, std::uint64_t(gigabytes * gigabyte), 0.004, 0.36, 0.02}};
  for (Model& model : all.models)
    model.objective_seconds = scale * model.latency_seconds;
  return all;
}

std::vector<Traffic> Point::traffic() const {
  std::vector<Traffic> all;
  for (const double one : power_law_rates(rate, int(models.size()), 0.5))
    all.push_back({one, cv});
  return all;
}

void add_models(std::vector<Model>& models, const char* name, int copies, double seconds,
                double gigabytes) {
  for (int i = 0; i < copies; ++i)
    models.push_back({fmt::format("{}-{}", name, i),
                      seconds,
                      std::uint64_t(gigabytes * gigabyte),
                      HUGE_VAL,
                      {}});
}

Point set(const std::string& name) {
  Point point;
  if (name == "s1") {
    add_models(point.models, "bert-1.3b", 32, 0.151, 2.4);
    point.devices = 16;
    point.rate = 40;
  } else if (name == "s2") {
    add_models(point.models, "bert-6.7b", 32, 0.395, 13.4);
    point.devices = 40;
    point.rate = 30;
  } else {
    add_models(point.models, "bert-1.3b", 10, 0.151, 2.4);
    add_models(point.models, "bert-2.7b", 10, 0.238, 5.4);
    add_models(point.models, "bert-6.7b", 10, 0.395, 13.4);
    add_models(point.models, "moe-1.3b", 10, 0.150, 2.6);
    add_models(point.models, "moe-2.4b", 10, 0.171, 4.8);
    add_models(point.models, "moe-5.3b", 10, 0.234, 10.6);
    point.devices = 48;
    point.rate = 80;
  }
  return point;
}

std::string cell(const Estimate& share) {
  return fmt::format("{:.2f} ± {:.2f}", 100 * share.mean, 100 * share.half_width);
}

std::vector<Workload> draws(const Point& point, std::uint64_t first) {
  std::vector<Workload> all;
  for (std::uint64_t seed = first; seed < first + runs; ++seed)
    all.push_back(draw_workload(point.traffic(), point.seconds, seed));
  return all;
}

Curves measure_point(const Point& point) {
  using Clock = std::chrono::steady_clock;
  const Problem problem = point.problem();
  const Workload workload = draw_workload(point.traffic(), 3 * point.seconds, 0);
  const auto fresh = draws(point, 1);
  PlanOptions options;
  options.threads = 2;
  options.trials = point.trials;
  options.validation = draws(point, 1'000'000);
  const auto begin = Clock::now();
  const Placement replicated =
      replicate_selectively(problem, workload, options.beam, options.stop).placement;
  const Placement each = one_per_device(problem, workload);
  const Placement in_turn = round_robin(problem);
  options.seeds = {replicated, each, in_turn};
  const Placement planned = plan(problem, workload, options).placement;
  Curves curves;
  curves.planning_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  for (const Placement& placement : {planned, replicated, each, in_turn})
    curves.attainment.push_back(measure(problem, placement, fresh).attainment);
  curves.attainment.push_back(measure(fresh, [&](const Workload& run) {
                                return replace_in_windows(problem, replicated, run, 10);
                              }).attainment);
  return curves;
}

} // namespace paceline::testing
