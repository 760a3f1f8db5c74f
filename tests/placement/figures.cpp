// The figures of docs/placement.md, as Markdown:
//
//   placement_figures pair|bounds|s1|s2|s3|s4|pays|batches|controller [PICTURE]
//
// With PICTURE, s1 to s4 draw their curves into it.
//
// All traffic is synthetic: Gamma arrivals, rates by a power law. The same figures everywhere.
#include "placement/controller.hpp"
#include "placement/estimate.hpp"
#include "placement/planner.hpp"
#include "tests/placement/curves.hpp"
#include "tests/placement/pays.hpp"
#include "tests/placement/points.hpp"
#include "tests/placement/problems.hpp"
#include "tests/placement/queueing.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <optional>
#include <string>

using namespace paceline::placement;
using namespace paceline::testing;

namespace {

double mean_ratio(std::vector<Traffic> traffic, double seconds, std::uint64_t seed) {
  const Problem problem = alike(2, bert_6b7_seconds, 2);
  const Workload run = draw_workload(traffic, seconds, seed);
  return simulate(problem, simple_pair(), run).mean_latency() /
         simulate(problem, pipelined_pair(), run).mean_latency();
}

Estimate mean_ratios(const std::vector<Traffic>& traffic, double seconds) {
  std::vector<double> ratios;
  for (std::uint64_t seed = 0; seed < runs; ++seed)
    ratios.push_back(mean_ratio(traffic, seconds, seed));
  return estimate(ratios);
}

void print_pair() {
  const double d = bert_6b7_seconds;
  const double pipeline = queueing::pipeline_latency(3, d, d / 2);
  fmt::print("| traffic | formula | requests | simulated |\n|---|---|---|---|\n");
  const auto row = [&](const char* name, const std::string& formula,
                       const std::vector<Traffic>& traffic, double seconds) {
    const Estimate ratio = mean_ratios(traffic, seconds);
    fmt::print("| {} | {} | {} x {:g} | {:.3f} ± {:.3f} |\n", name, formula, runs, 3 * seconds,
               ratio.mean, ratio.half_width);
    std::fflush(stdout);
  };
  const std::string equal = fmt::format("{:.3f}", queueing::simple_latency(3, d) / pipeline);
  const std::string skewed = fmt::format("{:.3f}", queueing::simple_latency(3, d, 0.2) / pipeline);
  row("Poisson, 1.5 each", equal, {{1.5}, {1.5}}, 1e5);
  for (const double seconds : {1e3, 1e4, 1e5, 1e6})
    row("Poisson, 0.6 and 2.4", skewed, {{0.6}, {2.4}}, seconds);
  for (const double seconds : {1e3, 1e4, 1e5, 1e6})
    row("Gamma, CV 3, 1.5 each", "-", {{1.5, 3}, {1.5, 3}}, seconds);
}

void print_bounds() {
  fmt::print("| load | alpha | beta |\n|---|---|---|\n");
  for (const double load : {0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75})
    fmt::print("| {} | {:.4f} | {:.4f} |\n", load, queueing::communication_bound(load),
               queueing::imbalance_bound(load));
}

/// Where a curve crosses 99 %, between two points of a sweep; none: it does not.
std::optional<double> crossing(const std::vector<std::pair<double, double>>& curve) {
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const auto [x0, y0] = curve[i - 1];
    const auto [x1, y1] = curve[i];
    if ((y0 >= 0.99) != (y1 >= 0.99))
      return x0 + (x1 - x0) * (0.99 - y0) / (y1 - y0);
  }
  return std::nullopt;
}

void print_crossings(const char* what, const std::vector<std::pair<double, double>>& planned,
                     const std::vector<std::pair<double, double>>& replicated) {
  const auto ours = crossing(planned);
  const auto theirs = crossing(replicated);
  const auto text = [](const std::optional<double>& at) {
    return at ? fmt::format("{:.2f}", *at) : "outside";
  };
  fmt::print("\n99 % at {} {} (plan), {} (selective replication)", what, text(ours), text(theirs));
  if (ours && theirs)
    fmt::print(": a ratio of {:.2f}", *ours / *theirs);
  fmt::print("\n\n");
}

Panel sweep(const Point& base, const char* what, const std::vector<double>& values,
            const std::function<void(Point&, double)>& change) {
  Panel panel{what, values};
  fmt::print(
      "| {} | plan | selective replication | one model per device | round robin | "
      "replacement in windows | not worse | planned in s |\n|---|---|---|---|---|---|---|---|\n",
      what);
  std::vector<std::pair<double, double>> planned, replicated;
  for (const double value : values) {
    Point point = base;
    change(point, value);
    const Curves curves = measure_point(point);
    const Estimate& ours = curves.attainment[0];
    bool not_worse = true;
    fmt::print("| {:g}", value);
    for (const Estimate& theirs : curves.attainment) {
      fmt::print(" | {}", cell(theirs));
      not_worse &= ours.mean + ours.half_width + theirs.half_width >= theirs.mean;
    }
    fmt::print(" | {} | {:.1f} |\n", not_worse ? "yes" : "no", curves.planning_seconds);
    std::fflush(stdout);
    planned.push_back({value, ours.mean});
    replicated.push_back({value, curves.attainment[1].mean});
    panel.attainments.push_back(curves.attainment);
  }
  print_crossings(what, planned, replicated);
  return panel;
}

void write_picture(const std::string& path, const std::string& text) {
  if (path.empty())
    return;
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file || std::fwrite(text.data(), 1, text.size(), file) != text.size() ||
      std::fclose(file) != 0)
    fmt::print(stderr, "cannot write {}\n", path);
}

std::vector<double> multiples(double base, std::initializer_list<double> factors) {
  std::vector<double> all;
  for (const double factor : factors)
    all.push_back(base * factor);
  return all;
}

void print_set(const std::string& name, const std::string& picture) {
  const Point base = set(name);
  const std::string title =
      fmt::format("{} models; but for what is varied: {} devices of 16 GiB, {:g} requests/s, CV "
                  "{:g}, objective {:g} x latency",
                  base.models.size(), base.devices, base.rate, base.cv, base.scale);
  fmt::print("{}\n\n", title);
  const std::vector panels{
      sweep(base, "devices", multiples(base.devices, {0.5, 0.75, 1, 1.25, 1.5}),
            [](Point& point, double value) { point.devices = int(value); }),
      sweep(base, "requests/s", multiples(base.rate, {0.1, 0.25, 0.5, 1, 1.5, 2}),
            [](Point& point, double value) { point.rate = value; }),
      sweep(base, "CV", {1, 2, 4, 6, 8}, [](Point& point, double value) { point.cv = value; }),
      sweep(base, "objective / latency", {1, 2, 3, 5, 8},
            [](Point& point, double value) { point.scale = value; })};
  write_picture(picture, draw_curves(title + " (synthetic traffic)",
                                     {"plan", "selective replication", "one model per device",
                                      "round robin", "replacement in windows"},
                                     panels));
}

const std::vector<Shape> s4_shapes{{16, 1}, {8, 2}, {4, 4}, {2, 8}};

/// Each of four models on devices of its own.
Placement dedicated(Shape shape) {
  Placement placement = empty_groups(std::vector<Shape>(4, shape));
  for (int model = 0; model < 4; ++model)
    placement.groups[std::size_t(model)].add(model);
  return placement;
}

/// "2 x 8x4": how a plan divides the devices.
std::string layout_text(const Placement& placement) {
  std::map<Shape, int> counts;
  for (const Group& group : placement.groups)
    if (!group.models.empty())
      ++counts[group.shape];
  std::string text;
  for (const auto& [shape, count] : counts)
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, to_string(shape));
  return text;
}

Placement planned_shapes(const Point& point) {
  PlanOptions options;
  options.threads = 2;
  options.bounds = {32, 8};
  options.validation = draws(point, 1'000'000);
  for (const Shape shape : s4_shapes)
    options.seeds.push_back(dedicated(shape));
  return plan(point.problem(), draw_workload(point.traffic(), point.seconds, 0), options).placement;
}

/// Returns the attainments of each shape, and of the plan.
std::vector<Estimate> shape_row(const Point& point, double value) {
  const Problem problem = point.problem();
  const auto fresh = draws(point, 1);
  std::vector<Estimate> all;
  fmt::print("| {:g}", value);
  std::size_t best = 0;
  for (const Shape shape : s4_shapes) {
    all.push_back(measure(problem, dedicated(shape), fresh).attainment);
    fmt::print(" | {}", cell(all.back()));
    if (all.back().mean > all[best].mean)
      best = all.size() - 1;
  }
  const Placement planned = planned_shapes(point);
  all.push_back(measure(problem, planned, fresh).attainment);
  fmt::print(" | {} | {} | {} |\n", to_string(s4_shapes[best]), cell(all.back()),
             layout_text(planned));
  return all;
}

Panel shape_rows(const Point& base, const char* what, const std::vector<double>& values,
                 const std::function<void(Point&, double)>& change) {
  Panel panel{what, values};
  fmt::print("\n| {} | 16x1 | 8x2 | 4x4 | 2x8 | best | plan | its groups |\n"
             "|---|---|---|---|---|---|---|---|\n",
             what);
  for (const double value : values) {
    Point point = base;
    change(point, value);
    panel.attainments.push_back(shape_row(point, value));
  }
  return panel;
}

void print_shapes(const std::string& picture) {
  Point base;
  add_models(base.models, "bert-104b", 4, 4.6, 208);
  base.devices = 64;
  base.rate = 4;
  base.scale = 2;
  base.seconds = 1000;
  const std::vector panels{
      shape_rows(base, "objective / latency", {0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 4.0, 8.0},
                 [](Point& point, double value) { point.scale = value; }),
      shape_rows(base, "requests/s", {0.5, 1.0, 2.0, 4.0, 6.0, 8.0},
                 [](Point& point, double value) { point.rate = value; }),
      shape_rows(base, "CV", {1, 2, 3, 4}, [](Point& point, double value) { point.cv = value; })};
  write_picture(picture, draw_curves("Four models of 104B on 64 devices: each on 16 of one shape, "
                                     "or as planned (synthetic traffic)",
                                     {"16x1", "8x2", "4x4", "2x8", "plan"}, panels));
}

/// A request's way through the controller: noted, sent, ended.
double controller_microseconds(int models, int devices, int on_each) {
  using Clock = std::chrono::steady_clock;
  Problem problem = alike(models, 0.1, devices, std::uint64_t(on_each), 1);
  Placement placement = empty_groups(std::vector<Shape>(std::size_t(devices), Shape{1, 1}));
  for (int d = 0; d < devices; ++d)
    for (int i = 0; i < on_each; ++i)
      placement.groups[std::size_t(d)].add((d + i * devices / on_each) % models);
  Controller controller(problem, placement);
  const Workload workload = draw_workload(
      std::vector<Traffic>(std::size_t(models), {8.0 * devices / models, 3}), 1e4 / devices, 1);
  std::deque<std::pair<double, Controller::Ticket>> open;
  const auto begin = Clock::now();
  for (const auto& [now, model] : workload.arrivals) {
    while (!open.empty() && open.front().first <= now) {
      controller.end(open.front().second, now);
      open.pop_front();
    }
    controller.note(model, now);
    const auto routed = controller.begin(model, now, now + 0.5);
    if (routed.dispatch.outcome == Dispatch::Outcome::accepted)
      open.emplace_back(routed.dispatch.finish, routed.ticket);
  }
  const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
  return took.count() / double(workload.arrivals.size());
}

void print_controller() {
  fmt::print("| models | devices | models on each | microseconds a request |\n|---|---|---|---|\n");
  for (const auto& [models, devices, on_each] :
       std::vector<std::array<int, 3>>{{1, 1, 1}, {2, 2, 2}, {60, 64, 6}, {60, 64, 60}})
    fmt::print("| {} | {} | {} | {:.2f} |\n", models, devices, on_each,
               controller_microseconds(models, devices, on_each));
}

} // namespace

int main(int count, char** arguments) {
  const std::string what = count >= 2 ? arguments[1] : "";
  const std::string picture = count == 3 ? arguments[2] : "";
  if (what == "pair")
    print_pair();
  else if (what == "bounds")
    print_bounds();
  else if (what == "s1" || what == "s2" || what == "s3")
    print_set(what, picture);
  else if (what == "s4")
    print_shapes(picture);
  else if (what == "pays")
    print_pays();
  else if (what == "batches")
    print_batches();
  else if (what == "controller")
    print_controller();
  else
    return fmt::print(stderr, "usage: placement_figures "
                              "pair|bounds|s1|s2|s3|s4|pays|batches|controller [PICTURE]\n"),
           2;
}
