// Placements served by real actors, beside the simulator.
#pragma once

#include "placement/placement.hpp"
#include "placement/workload.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace paceline::testing {

/// A placement, and what is asked of it.
struct ActedCase {
  placement::Problem problem;
  placement::Placement placement;
  placement::Workload workload;
};

/// A small one at random, of about so many requests. Models that share a group take as long as each
/// other, for an engine is one model.
ActedCase draw_case(std::uint64_t seed, std::size_t requests);

/// Share of its requests that are answered within their objective by an engine for each group, on
/// simulated devices in virtual time, with the controller in front of them.
double acted_attainment(const ActedCase& drawn);

/// Latencies of an engine that answers several requests at once, and what was foreseen.
struct TogetherLatencies {
  double engine_mean = 0;
  double simulated_mean = 0;
  double engine_p99 = 0;
  double simulated_p99 = 0;
  std::size_t most_at_once = 0; ///< As its costs were measured.
};

/// Measures an engine with a stage on each of so many such devices, as `paceline plan` does, and
/// sends it bursts in virtual time.
TogetherLatencies together_latencies(const std::string& device, int stages);

} // namespace paceline::testing
