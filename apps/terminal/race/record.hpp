// Runs of a race, recorded.
#pragma once

#include "apps/console/session.hpp"
#include "apps/terminal/race/recording.hpp"

#include <atomic>
#include <vector>

namespace paceline::apps {

/// Records all columns in turn by their engines' clocks, after a warm-up, and keeps of each the run
/// with the median time. engines: Recording::engine is an index. virtual_time: they run on a
/// virtual clock, on which any run takes as long, so that there is one of each.
Result<void> record_all(std::vector<Session>& engines, const Request& request, bool virtual_time,
                        std::vector<Recording>& lanes, const std::atomic<bool>& stopped);

} // namespace paceline::apps
