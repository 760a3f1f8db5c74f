#include "placement/estimate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace paceline::placement {
namespace {

/// Student's t, two-sided 95 %, by degrees of freedom from 1.
constexpr std::array t95{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                         2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                         2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045};

} // namespace

Estimate estimate(std::span<const double> values) {
  const auto n = double(values.size());
  if (values.empty())
    return {};
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (values.size() < 2)
    return {mean, 0};
  double squares = 0;
  for (const double value : values)
    squares += (value - mean) * (value - mean);
  const double t = t95[std::min(values.size() - 2, t95.size() - 1)];
  return {mean, t * std::sqrt(squares / (n - 1) / n)};
}

Figures measure(std::span<const Workload> runs,
                const std::function<Outcome(const Workload&)>& simulate) {
  std::vector<double> attainment, mean, p99;
  std::array<std::vector<double>, latency_shares.size()> latencies;
  for (const Workload& run : runs) {
    Outcome outcome = simulate(run);
    std::ranges::sort(outcome.latencies);
    attainment.push_back(outcome.attainment());
    mean.push_back(outcome.mean_latency());
    p99.push_back(outcome.quantile(0.99));
    for (std::size_t i = 0; i < latency_shares.size(); ++i)
      latencies[i].push_back(outcome.quantile(latency_shares[i] / 100));
  }
  Figures figures{estimate(attainment), estimate(mean), estimate(p99), {}};
  for (const auto& each : latencies)
    figures.latencies.push_back(estimate(each));
  return figures;
}

Figures measure(const Problem& problem, const Placement& placement,
                std::span<const Workload> runs) {
  return measure(runs, [&](const Workload& run) { return simulate(problem, placement, run); });
}

} // namespace paceline::placement
