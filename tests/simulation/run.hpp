// One simulated run: the real actors on a virtual clock, and everything that happens to them a
// function of the seed and the fault plan.
#pragma once

#include "tests/simulation/fault_plan.hpp"
#include "tests/simulation/workload.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace paceline::testing {

struct RunOptions {
  bool log = false;       ///< Keep a line for each message, fault, request and end.
  int jobs_max = 1 << 20; ///< Leaves the last requests out.
  /// Drafts in the model's place; empty: that does.
  std::function<std::shared_ptr<Drafter>()> drafter{};
  Elsewhere elsewhere = Elsewhere::nothing; ///< The seed's workload is one for that.
};

struct Report {
  std::uint64_t seed = 0;
  std::vector<std::string> failures; ///< What was promised and did not hold.
  std::map<std::string, int> faults; ///< By kind.
  std::map<std::string, int> probes; ///< Rare paths that were reached.
  std::map<std::string, int> ends;   ///< Requests by reason.
  int requests = 0;
  int tokens = 0;            ///< Delivered.
  int windows_in_flight = 0; ///< Most at once.
  int faults_total = 0;
  std::size_t steps = 0;
  base::Duration time{}; ///< Virtual.
  std::string log;

  bool failed() const { return !failures.empty(); }
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
