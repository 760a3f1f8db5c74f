// Estimates what a placement does, and how sure that is.
#pragma once

#include "placement/simulator.hpp"

#include <array>
#include <functional>
#include <span>
#include <vector>

namespace paceline::placement {

/// A mean over independent runs. The true value lies within `half_width` of it with a probability
/// of 95 % (Student's t).
struct Estimate {
  double mean = 0;
  double half_width = 0;
};

/// Returns the estimate of a mean. values: at most 30; the half width of fewer than two is 0.
Estimate estimate(std::span<const double> values);

struct Figures {
  Estimate attainment;
  Estimate mean_latency; ///< Seconds, over the requests that were served.
  Estimate p99_latency;
  std::vector<Estimate> latencies; ///< The quantiles at `latency_shares`.
};

/// The shares of the served requests at which the distribution of latencies is told, in percent.
inline constexpr std::array latency_shares{10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9};

/// Returns the figures of all runs. runs: independent workloads. simulate: what a run comes to.
Figures measure(std::span<const Workload> runs,
                const std::function<Outcome(const Workload&)>& simulate);
Figures measure(const Problem& problem, const Placement& placement, std::span<const Workload> runs);

} // namespace paceline::placement
