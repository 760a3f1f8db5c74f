// Many seeds, and what they add up to.
#pragma once

#include "tests/simulation/run.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace paceline::testing {

struct CampaignOptions {
  std::uint64_t first = 1;
  std::size_t runs = 1000;
  int threads = 2;                            ///< Each with an engine of its own at a time.
  std::size_t failures_max = std::size_t(-1); ///< Ends after so many.
  Elsewhere elsewhere = Elsewhere::nothing;   ///< In each.
};

struct Campaign {
  std::size_t runs = 0;
  std::size_t failed = 0;
  std::vector<std::uint64_t> failing; ///< The first few seeds.
  std::map<std::string, std::uint64_t> faults;
  std::map<std::string, std::uint64_t> probes;
  std::map<std::string, std::uint64_t> ends;
  // One per run, sorted.
  std::vector<int> requests, tokens, windows, faults_each, steps;
  double seconds = 0;

  /// The distributions and counts, for reading.
  std::string text() const;
};

Campaign run_campaign(const CampaignOptions& options);

} // namespace paceline::testing
