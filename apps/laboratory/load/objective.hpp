// What an operator asks of latencies: "p99_tbt:100ms".
#pragma once

#include "apps/laboratory/load/measures.hpp"
#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::apps::load {

/// Seconds of "100", "100ms" or "1.5s"; a bare number is of milliseconds, as vLLM's --goodput has
/// it.
std::optional<double> parse_milliseconds(std::string_view text);

/// "ttft:200", for --goodput.
std::optional<LatencyLimit> parse_limit(std::string_view text);

/// A bound on what a run shows of a latency.
struct Objective {
  std::string name; ///< "p99_tbt", as it was given.
  Latency latency = Latency::itl;
  std::optional<double> share; ///< Of the quantile; none: the mean.
  double seconds = 0;

  double of(const Figures& figures) const;
  bool kept_by(const Figures& figures) const { return of(figures) <= seconds; }
};

/// "p99_tbt:100ms"; mean, median and p50, p99.9 and the like, of each latency.
std::optional<Objective> parse_objective(std::string_view text);

} // namespace paceline::apps::load
