// Two models on two cores, measured beside the simulator (docs/placement.md):
//
//   placement_cores [CHECKPOINT [TOKENS]]
//
// Each model on a core of its own, and both in two stages over both cores, while bursts of their
// requests come in turn: mean and P99 as measured and as simulated, with costs as `paceline plan
// --measure` finds them. Requests are prompts of TOKENS tokens (256) for CHECKPOINT (demo), with
// one token of output. The first two cores have to have nothing else to do. Status 0: all of it is
// within 15 %.
#include "apps/laboratory/plan/measure.hpp"
#include "placement/random.hpp"
#include "placement/simulator.hpp"
#include "tests/placement/one_pass.hpp"
#include "tests/placement/problems.hpp"

#include <algorithm>
#include <boost/random/exponential_distribution.hpp>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <stdexcept>
#include <thread>

using namespace paceline;
using namespace paceline::placement;
using namespace paceline::testing;

namespace {

constexpr double tolerance = 0.15;
constexpr int burst_requests = 8;
constexpr int bursts_of_a_run = 24;
constexpr int runs = 3;
constexpr const char* cores[] = {"cpu:0", "cpu:1"};

struct Options {
  std::string checkpoint = "demo"; ///< Of both models.
  int tokens = 256;                ///< Of a prompt.
};

/// What a request costs on one core and in two stages, as `plan --measure` finds it.
apps::plan::Costs costs_of(const Options& options) {
  const auto costs = apps::plan::measure_costs(
      {options.checkpoint, "none", options.tokens, 1, {cores[0], cores[1]}},
      {.max_pipeline = 2,
       .max_tensor = 1,
       .text = "def mean(values):\n    return sum(values) / len(values)\n",
       .progress = {}});
  if (!costs)
    throw std::runtime_error(costs.error().text());
  for (const auto& [shape, stages] : *costs)
    fmt::print("{}: stages of {:.4f} s\n", to_string(shape), fmt::join(stages, " and "));
  return *costs;
}

/// Bursts of one model and the other in turn, at twice the rate of a core, which is about done with
/// one when the other model's begins.
Workload bursts(double latency, std::uint64_t seed) {
  Random random(seed, Draws::gaps, 0);
  boost::random::exponential_distribution<double> gap(2 / latency);
  const double apart = burst_requests * latency;
  Workload workload{apart * bursts_of_a_run, {}};
  for (int burst = 0; burst < bursts_of_a_run; ++burst) {
    double now = apart * burst;
    for (int i = 0; i < burst_requests; ++i)
      workload.arrivals.push_back({now += gap(random), burst % 2});
  }
  std::ranges::stable_sort(workload.arrivals, {}, &Arrival::seconds);
  return workload;
}

/// Latencies of one model's requests, as they come.
std::vector<double> play(OnePassEngine& engine, const Workload& workload, int model) {
  std::vector<double> arrivals;
  std::vector<double> latencies;
  const double begin = engine.now();
  std::size_t first = 0; // of the engine's numbers
  const auto take = [&](const std::pair<std::size_t, double>& end) {
    latencies.push_back(end.second - arrivals[end.first - first]);
  };
  for (const Arrival& arrival : workload.arrivals) {
    if (arrival.model != model)
      continue;
    const double at = begin + arrival.seconds;
    while (engine.now() < at)
      if (const auto end = engine.next_end(at))
        take(*end);
    const std::size_t number = engine.send();
    if (arrivals.empty())
      first = number;
    arrivals.push_back(at);
  }
  while (const auto end = engine.next_end())
    take(*end);
  return latencies;
}

/// Latencies of all requests. devices: of each model's engine.
std::vector<double> measured(const Options& options,
                             const std::vector<std::vector<std::string>>& devices,
                             const std::vector<Workload>& workloads) {
  std::vector<std::unique_ptr<OnePassEngine>> engines;
  for (const auto& on : devices) {
    engines.push_back(std::make_unique<OnePassEngine>(options.checkpoint, on, options.tokens,
                                                      OnePassEngine::Time::real));
    for (int warm = 0; warm < burst_requests; ++warm) {
      engines.back()->send();
      engines.back()->next_end();
    }
  }
  std::vector<double> all;
  for (const Workload& run : workloads) {
    std::vector<std::vector<double>> played(engines.size());
    {
      std::vector<std::jthread> players;
      for (std::size_t m = 0; m < engines.size(); ++m)
        players.emplace_back([&, m] { played[m] = play(*engines[m], run, int(m)); });
    }
    for (const auto& one : played)
      all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

std::string cells(double measured, double simulated, bool& within) {
  const double ratio = measured / simulated;
  within &= std::abs(ratio - 1) <= tolerance;
  return fmt::format("{:.4f} | {:.4f} | {:.2f}", measured, simulated, ratio);
}

bool print_cores(const Options& options) {
  const apps::plan::Costs costs = costs_of(options);
  Problem problem = alike(2, 1, 2, 28);
  for (Model& model : problem.models)
    model.measured = costs;
  std::vector<Workload> workloads;
  for (std::uint64_t seed = 0; seed < runs; ++seed)
    workloads.push_back(bursts(costs.at({1, 1}).front(), seed));
  fmt::print("\n| placement | mean, s | simulated | ratio | P99, s | simulated | ratio |\n"
             "|---|---|---|---|---|---|---|\n");
  const std::vector<std::string> both{cores[0], cores[1]};
  bool within = true;
  for (const bool split : {false, true}) {
    Outcome simulated;
    for (const Workload& run : workloads)
      simulated.append(simulate(problem, split ? pipelined_pair() : simple_pair(), run));
    Outcome real;
    real.latencies = split ? measured(options, {both, both}, workloads)
                           : measured(options, {{both[0]}, {both[1]}}, workloads);
    fmt::print("| {} | {} | {} |\n", split ? "both in two stages" : "a core each",
               cells(real.mean_latency(), simulated.mean_latency(), within),
               cells(real.quantile(0.99), simulated.quantile(0.99), within));
  }
  fmt::print("\nwithin {:g} %: {}\n", 100 * tolerance, within ? "yes" : "no");
  return within;
}

} // namespace

int main(int count, char** arguments) {
  Options options;
  if (count >= 2)
    options.checkpoint = arguments[1];
  if (count >= 3)
    options.tokens = std::atoi(arguments[2]);
  return print_cores(options) ? 0 : 1;
}
