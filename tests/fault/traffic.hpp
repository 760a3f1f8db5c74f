// Streams on a live engine whose actors are killed.
#pragma once

#include "tests/fault/live_engine.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::testing {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// What this process holds.
struct Footprint {
  std::size_t resident_bytes = 0;
  int threads = 0;
  int handles = 0; ///< Open files.
};
Footprint footprint();

/// The demo pair, ready to be killed again and again.
EngineOptions live_options();
/// Sixteen requests over source texts: half greedy, half `coupled` with temperature and penalties.
std::vector<Request> live_requests(int max_tokens);
/// What each of them gives without draft or faults.
std::vector<std::vector<TokenId>> undisturbed(const std::vector<Request>& requests);

struct TrafficPlan {
  int kills = 0;            ///< Ends after so many ...
  double seconds = 0;       ///< ... and at least so much time.
  double cancelled = 0;     ///< Share of the requests.
  int tokens_per_kill = 60; ///< On average, over all streams together.
  int max_tokens = 96;      ///< Of each request.
  std::uint64_t seed = 1;
};

struct TrafficReport {
  int kills = 0;
  int requests = 0;  ///< That ended by themselves,
  int cancelled = 0; ///< and those that did not.
  int different = 0; ///< Outputs that are not the undisturbed ones.
  int lost = 0;      ///< Requests that ended otherwise.
  std::string first_problem;
  std::vector<double> recoveries; ///< Seconds from a kill until every stream had moved on; sorted.
  Metrics metrics;                ///< When all was silent again.
  Footprint before, after;        ///< After the first tenth, and at the end.

  std::string text() const;
};

/// Sixteen streams at a time, each followed by another, while random parts are killed after random
/// numbers of tokens.
TrafficReport run_traffic(const TrafficPlan& plan);

double percentile(const std::vector<double>& sorted, double share);

} // namespace paceline::testing
