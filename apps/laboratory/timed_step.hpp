// One piece of work, run again and again on a lane.
#pragma once

#include "gpu/lane.hpp"
#include "paceline/error.hpp"

#include <functional>
#include <vector>

namespace paceline::apps {

/// Runs `body` on every rank of the lane's team, `times` times, and returns the seconds of each
/// run. before: called ahead of each run on the lane's own thread, outside the measured time; may
/// be empty.
Result<std::vector<double>> time_on(gpu::Lane& lane, int times,
                                    std::function<void(gpu::Operations&)> body,
                                    std::function<void()> before = {});

} // namespace paceline::apps
