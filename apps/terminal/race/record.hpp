// Runs of a race, recorded.
#pragma once

#include "apps/console/session.hpp"
#include "apps/terminal/race/recording.hpp"

#include <atomic>
#include <chrono>
#include <vector>

namespace paceline::apps {

/// Returns the seconds that have passed since.
double seconds_since(std::chrono::steady_clock::time_point begin);

/// Submits the request for one run of a column. A look-up finds nothing of other runs, since all
/// write the same text. run: which run of this column it is.
Result<Stream> start_lane(Engine& engine, Request request, const Recording& lane, int run = 0);

/// Notes an event. Returns the error of a request that failed.
Result<void> note_event(Recording& lane, Event event, double seconds);

/// Records all columns on one machine, in turn, after a warm-up, and keeps of each the run with the
/// median time. engines: Recording::engine is an index.
Result<void> record_all(std::vector<Session>& engines, const Request& request,
                        std::vector<Recording>& lanes, const std::atomic<bool>& stopped);

} // namespace paceline::apps
