// What came of a simulated run.
#pragma once

#include "base/clock.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace paceline::testing {

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

} // namespace paceline::testing
