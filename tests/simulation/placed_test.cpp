// Several models that move between groups of engines, over seeded runs (docs/testing.md).
#include "tests/simulation/placed_run.hpp"
#include "tests/support/effort.hpp"

#include <doctest/doctest.h>
#include <map>
#include <set>
#include <string>

using namespace paceline;
using namespace paceline::testing;

TEST_CASE("whatever moves and fails, each request ends once, with the tokens of its own model") {
  std::map<std::string, int> reached;
  std::set<std::string> faults;
  int failed = 0;
  const int runs = effort(300);
  for (int seed = 1; seed <= runs; ++seed) {
    const Report report = simulate_placed(std::uint64_t(seed), draw_plan(std::uint64_t(seed)));
    if (report.failed())
      MESSAGE("seed ", seed, ": ", report.failures.front());
    failed += report.failed();
    for (const auto& [probe, count] : report.probes)
      reached[probe] += count;
    for (const auto& [fault, count] : report.faults)
      faults.insert(fault);
  }
  CHECK(failed == 0);
  for (const char* probe : placed_probe_names()) {
    CAPTURE(std::string(probe));
    CHECK((reached[probe] > 0 || sanitized));
  }
  CHECK((faults.size() == local_fault_fields().size() || sanitized));
}

TEST_CASE("a seed repeats its run of several models, message for message") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const FaultPlan plan = draw_plan(seed);
    const Report first = simulate_placed(seed, plan, true);
    CHECK(first.log == simulate_placed(seed, plan, true).log);
    CHECK(first.log.size() > 1000);
  }
}
