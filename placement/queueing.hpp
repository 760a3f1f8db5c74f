// Computes waiting in queues, in closed form: two models on two devices, each on one of its own
// (simple placement) or both in stages over both (Li et al. 2023, section 3.4). Arrivals are
// Poisson, and service times constant: M/D/1. Times are in seconds, rates in requests a second.
#pragma once

namespace paceline::placement::queueing {

/// Returns the mean wait before service, rate service^2 / (2 (1 - rate service)); rate * service is
/// below 1.
double md1_wait(double rate, double service);

/// Returns the mean latency of simple placement; `share` of the requests is for one of the models.
double simple_latency(double rate, double latency, double share = 0.5);

/// Returns the mean latency of a pipeline: all of it takes `latency`, its slowest stage `slowest`.
double pipeline_latency(double rate, double latency, double slowest);

/// Returns alpha: by how much a pipeline's latency may grow, all stages alike, until it is no
/// better than simple placement with equal shares. load: rate times latency, in (0, 2).
double communication_bound(double load);

/// Returns beta: likewise how much the slowest of two stages may exceed half of the latency.
double imbalance_bound(double load);

} // namespace paceline::placement::queueing
