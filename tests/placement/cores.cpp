// Two models on two cores, measured beside the simulator (docs/placement.md):
//
//   placement_cores [CHECKPOINT [TOKENS OUTPUT_TOKENS]]
//
// Each model on a core of its own, and both in two stages over both cores, while bursts of their
// requests come in turn: mean and P99 as measured and as simulated, with costs as `paceline plan
// --measure` finds them. Requests are prompts of TOKENS tokens for CHECKPOINT (demo) with
// OUTPUT_TOKENS of output; without these numbers it is done for 256 and 1, where a request is one
// pass, and for 16 and 64, which are answered in batches. The first two cores have to have nothing
// else to do. Status 0: all of it is within 15 %.
#include "apps/laboratory/plan/measure.hpp"
#include "placement/cost.hpp"
#include "placement/random.hpp"
#include "placement/simulator.hpp"
#include "tests/placement/fed_engine.hpp"
#include "tests/placement/problems.hpp"

#include <algorithm>
#include <boost/random/exponential_distribution.hpp>
#include <cmath>
#include <cstdio>
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
constexpr int passes_of_a_burst = 8; ///< Requests of a burst, or twice the largest batch.
constexpr int bursts_of_a_run = 24;
constexpr int warm_requests = 8;
constexpr int runs = 3;
constexpr const char* cores[] = {"cpu:0", "cpu:1"};

struct Options {
  std::string checkpoint = "demo"; ///< Of both models.
  int tokens = 0;                  ///< Of a prompt.
  int output_tokens = 0;
};

/// What a request costs on one core and in two stages, as `plan --measure` finds it.
apps::plan::Costs costs_of(const Options& options) {
  const auto costs = apps::plan::measure_costs(
      {options.checkpoint, "none", options.tokens, options.output_tokens, {cores[0], cores[1]}},
      {.max_pipeline = 2,
       .max_tensor = 1,
       .text = "def mean(values):\n    return sum(values) / len(values)\n",
       .progress = {}});
  if (!costs)
    throw std::runtime_error(costs.error().text());
  for (const auto& [shape, cost] : *costs)
    fmt::print("{}: stages of {:.4f} s, in batches of 2, 4, ... times {:.2f}\n", to_string(shape),
               fmt::join(cost.seconds, " and "), fmt::join(cost.growth, ", "));
  return *costs;
}

/// Bursts of one model and the other in turn, at twice the rate of a core, which is about done with
/// one when the other model's begins. A burst has eight requests, or twice as many as a batch.
Workload bursts(const StageCosts& core, std::uint64_t seed) {
  const double each = least_seconds(core);
  const auto requests = passes_of_a_burst * std::max(1, int(Pace(core).at_once()) / 4);
  Random random(seed, Draws::gaps, 0);
  boost::random::exponential_distribution<double> gap(2 / each);
  const double apart = requests * each;
  Workload workload{apart * bursts_of_a_run, {}};
  for (int burst = 0; burst < bursts_of_a_run; ++burst) {
    double now = apart * burst;
    for (int i = 0; i < requests; ++i)
      workload.arrivals.push_back({now += gap(random), burst % 2});
  }
  std::ranges::stable_sort(workload.arrivals, {}, &Arrival::seconds);
  return workload;
}

/// Latencies of one model's requests, as they come.
std::vector<double> play(FedEngine& engine, const Workload& workload, int model) {
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
  std::vector<std::unique_ptr<FedEngine>> engines;
  for (const auto& on : devices) {
    engines.push_back(std::make_unique<FedEngine>(options.checkpoint, on, options.tokens,
                                                  options.output_tokens, FedEngine::Time::real));
    for (int warm = 0; warm < warm_requests; ++warm) {
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
  apps::plan::Costs costs = costs_of(options);
  if (options.output_tokens == 1)
    for (auto& [shape, cost] : costs)
      cost.growth.clear(); // A request is one pass.
  Problem problem = alike(2, 1, 2, 28);
  for (Model& model : problem.models)
    model.measured = costs;
  std::vector<Workload> workloads;
  for (std::uint64_t seed = 0; seed < runs; ++seed)
    workloads.push_back(bursts(costs.at({1, 1}), seed));
  fmt::print("\nprompts of {} tokens, answers of {}; {} requests\n\n", options.tokens,
             options.output_tokens, runs * workloads.front().arrivals.size());
  fmt::print("| placement | mean, s | simulated | ratio | P99, s | simulated | ratio |\n"
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
    std::fflush(stdout);
  }
  fmt::print("\nwithin {:g} %: {}\n", 100 * tolerance, within ? "yes" : "no");
  return within;
}

} // namespace

int main(int count, char** arguments) {
  Options options;
  if (count >= 2)
    options.checkpoint = arguments[1];
  std::vector<std::pair<int, int>> loads{{256, 1}, {16, 64}};
  if (count >= 4)
    loads = {{std::atoi(arguments[2]), std::atoi(arguments[3])}};
  bool within = true;
  for (const auto& [tokens, output_tokens] : loads) {
    options.tokens = tokens;
    options.output_tokens = output_tokens;
    within &= print_cores(options);
  }
  return within ? 0 : 1;
}
