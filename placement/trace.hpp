// Traces of requests that were recorded somewhere, and their replay.
#pragma once

#include "paceline/error.hpp"
#include "placement/workload.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::placement {

/// What was recorded: the requests, or how many of them came in each minute.
struct Trace {
  double seconds = 0;
  std::vector<Arrival> arrivals; ///< Requests by growing time, from 0 seconds on.
  /// Requests of each model in each minute, where their times were not recorded; else empty.
  std::vector<std::vector<std::size_t>> minutes;
};

/// Makes the first request come at 0 seconds: recorded times often count from 1970. arrivals: by
/// growing time, at least one.
Trace begin_with_first(std::vector<Arrival> arrivals);

/// Reads a trace. Its first line says which layout it has:
/// - `seconds,model`, or none: a line for each request by growing seconds, of any clock, as the run
///   begins with the first request;
/// - `HashOwner,HashApp,HashFunction,Trigger,1,2,...`: Azure Functions 2019, a line for each
///   function with its invocations in each minute of a day (Shahrad et al. 2020);
/// - `app,func,end_timestamp,duration`: Azure Functions 2021, a line for each invocation (Zhang et
///   al. 2021), which came `duration` before its end.
/// Functions that are called at all become models in turn, in the order in which they are first
/// named (Li et al. 2023, section 6.2). Errors (`corrupt`) name the line.
Result<Trace> read_trace(std::string_view text, std::span<const std::string> models);
/// Reads the second and the third of these.
Result<Trace> read_azure_2019(std::string_view text, int models);
Result<Trace> read_azure_2021(std::string_view text, int models);

/// The part of a trace that is replayed, and how.
struct Replay {
  double from_seconds = 0;
  double to_seconds = std::numeric_limits<double>::infinity();
  double rate_scale = 1;
  double cv_scale = 1;
  double window_seconds = 600;
};

/// Replays a part of a trace. Where its requests have times, and scales are 1, these are they.
/// Otherwise requests of each model in each window are drawn from a Gamma process, whose rate and
/// CV are those of the window times the scales (Li et al. 2023, section 6.2). The CV of a window
/// with too few gaps, or without times, is 1 before it is scaled. The same seed gives the same
/// requests. Errors (`invalid_argument`): the part has no requests, or too many.
Result<Workload> replay(const Trace& trace, const Replay& how, std::uint64_t seed);

} // namespace paceline::placement
