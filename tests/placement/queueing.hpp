// Computes waiting in queues, in closed form: two models on two devices, each on one of its own
// (simple placement) or both in stages over both (Li et al. 2023, section 3.4). Arrivals are
// Poisson, and service times constant: M/D/1. Times are in seconds, rates in requests a second.
#pragma once

#include <cmath>

namespace paceline::testing::queueing {

/// Returns the mean wait before service, rate service^2 / (2 (1 - rate service)); rate * service is
/// below 1.
inline double md1_wait(double rate, double service) {
  return rate * service * service / (2 * (1 - rate * service));
}

/// Returns the mean latency of simple placement; `share` of the requests is for one of the models.
inline double simple_latency(double rate, double latency, double share = 0.5) {
  return latency + share * md1_wait(share * rate, latency) +
         (1 - share) * md1_wait((1 - share) * rate, latency);
}

/// Returns the mean latency of a pipeline: all of it takes `latency`, its slowest stage `slowest`.
inline double pipeline_latency(double rate, double latency, double slowest) {
  return latency + md1_wait(rate, slowest);
}

/// Returns alpha: by how much a pipeline's latency may grow, all stages alike, until it is no
/// better than simple placement with equal shares. load: rate times latency, in (0, 2).
inline double communication_bound(double load) {
  // Solves for alpha, with r = load and the simple placement's latency w = 1 + r / (4 - 2 r), in
  // units of the latency: alpha + r alpha^2 / (8 - 4 r alpha) = w, so
  // 3 r alpha^2 - (8 + 4 r w) alpha + 8 w = 0.
  const double w = simple_latency(load, 1);
  const double half = 4 + 2 * load * w;
  return (half - std::sqrt(half * half - 24 * load * w)) / (3 * load);
}

/// Returns beta: likewise how much the slowest of two stages may exceed half of the latency.
inline double imbalance_bound(double load) {
  // Solves r beta^2 / (8 - 4 r beta) = w - 1 = r / (4 - 2 r), so (2 - r) beta^2 + 2 r beta - 4 = 0.
  const double rest = 2 - load;
  return (std::sqrt(load * load + 4 * rest) - load) / rest;
}

} // namespace paceline::testing::queueing
