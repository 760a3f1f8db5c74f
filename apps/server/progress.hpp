// What an answer's events tell the metrics.
#pragma once

#include "apps/server/replica.hpp"

#include <chrono>

namespace paceline::apps::serve {

/// Of one answer, in the order of its events.
class Progress {
public:
  void note(Replica& replica, const Event& event, std::chrono::steady_clock::time_point arrived);

private:
  std::chrono::steady_clock::time_point last_; ///< When the last tokens came.
};

} // namespace paceline::apps::serve
