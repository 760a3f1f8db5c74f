// Bounds that an operator sets on latencies, such as "p99_tbt:100ms".
#pragma once

#include "apps/laboratory/load/measures.hpp"
#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::apps::load {

/// Reads "100", "100ms" or "1.5s" as seconds; a bare number is milliseconds, as in vLLM's
/// --goodput.
std::optional<double> parse_milliseconds(std::string_view text);

/// Reads a limit of --goodput, such as "ttft:200".
std::optional<LatencyLimit> parse_limit(std::string_view text);

/// A bound on a statistic of a latency over a run.
struct Objective {
  std::string name; ///< Name as it was given, such as "p99_tbt".
  Latency latency = Latency::itl;
  std::optional<double> share; ///< Share of the quantile; none: the mean.
  double seconds = 0;

  double of(const Figures& figures) const;
  bool kept_by(const Figures& figures) const { return of(figures) <= seconds; }
};

/// Reads "p99_tbt:100ms"; the statistics are mean, median and p50, p99.9 and the like, of each
/// latency.
std::optional<Objective> parse_objective(std::string_view text);

} // namespace paceline::apps::load
