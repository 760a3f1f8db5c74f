// Several models on groups of devices, behind the controller that routes their requests, while
// models move, plans change, and things go wrong.
#pragma once

#include "tests/simulation/run.hpp"

#include <vector>

namespace paceline::testing {

/// All that the report's `probes` may name: moves, and what became of engines and requests.
std::vector<const char*> placed_probe_names();

/// Some of the seed's workloads, each of a model of its own, under `plan`. Engines are opened and
/// closed as the moves from one random placement to another say, and as plans for what was asked
/// say; one that ends is opened anew. log: keeps one. Threads: any, several at once.
Report simulate_placed(std::uint64_t seed, const FaultPlan& plan, bool log = false);

} // namespace paceline::testing
