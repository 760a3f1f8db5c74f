#include "placement/queueing.hpp"

#include <cmath>

namespace paceline::placement::queueing {

double md1_wait(double rate, double service) {
  return rate * service * service / (2 * (1 - rate * service));
}

double simple_latency(double rate, double latency, double share) {
  return latency + share * md1_wait(share * rate, latency) +
         (1 - share) * md1_wait((1 - share) * rate, latency);
}

double pipeline_latency(double rate, double latency, double slowest) {
  return latency + md1_wait(rate, slowest);
}

// Solves for alpha, with r = load and the simple placement's latency w = 1 + r / (4 - 2 r), in
// units of the latency: alpha + r alpha^2 / (8 - 4 r alpha) = w, so 3 r alpha^2 - (8 + 4 r w) alpha
// + 8 w = 0.
double communication_bound(double load) {
  const double w = simple_latency(load, 1);
  const double half = 4 + 2 * load * w;
  return (half - std::sqrt(half * half - 24 * load * w)) / (3 * load);
}

// Solves r beta^2 / (8 - 4 r beta) = w - 1 = r / (4 - 2 r), so (2 - r) beta^2 + 2 r beta - 4 = 0.
double imbalance_bound(double load) {
  const double rest = 2 - load;
  return (std::sqrt(load * load + 4 * rest) - load) / rest;
}

} // namespace paceline::placement::queueing
