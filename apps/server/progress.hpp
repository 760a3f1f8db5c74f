// Counting of an answer's events in the metrics.
#pragma once

#include "apps/server/replica.hpp"

#include <chrono>

namespace paceline::apps::serve {

/// Counts the events of one answer, in their order.
class Progress {
public:
  void note(Replica& replica, const Event& event, std::chrono::steady_clock::time_point arrived);

private:
  std::chrono::steady_clock::time_point last_; ///< Time at which the last tokens came.
};

} // namespace paceline::apps::serve
