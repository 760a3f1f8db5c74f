// One simulated run: the real actors on a virtual clock, and everything that happens to them a
// function of the seed and the fault plan.
#pragma once

#include "tests/simulation/fault_plan.hpp"
#include "tests/simulation/report.hpp"
#include "tests/simulation/workload.hpp"

#include <cstdint>
#include <functional>
#include <memory>

namespace paceline::testing {

struct RunOptions {
  bool log = false;       ///< Keep a line for each message, fault, request and end.
  int jobs_max = 1 << 20; ///< Leaves the last requests out.
  /// Drafts in the model's place; empty: that does.
  std::function<std::shared_ptr<Drafter>()> drafter{};
  Elsewhere elsewhere = Elsewhere::nothing; ///< The seed's workload is one for that.
};

/// Runs the seed's workload under `plan`. Threads: any, several at once.
Report simulate(std::uint64_t seed, const FaultPlan& plan, const RunOptions& options = {});

/// A smaller plan (and fewer requests) under which the seed still fails.
struct Shrunk {
  FaultPlan plan;
  RunOptions options;
  Report report;
};
Shrunk shrink(std::uint64_t seed, const FaultPlan& plan, const RunOptions& options = {});

} // namespace paceline::testing
