// Simulates a run of requests over a placement by stage times alone: no tokens, no actors.
#pragma once

#include "placement/dispatcher.hpp"
#include "placement/workload.hpp"

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace paceline::placement {

struct Outcome {
  std::vector<std::size_t> unserved; ///< Requests refused, by model.
  std::vector<double> busy_seconds;  ///< Work of each group's slowest stages on requests.
  std::vector<double> latencies;     ///< Seconds, for each request that was served.
  std::size_t requests = 0;

  /// Returns the share of all requests that were answered within their objective: since what would
  /// be late is refused, those that were served. It is 1 without any request.
  double attainment() const;
  /// Returns seconds; 0 if none was served.
  double mean_latency() const;
  /// Returns a quantile of the latencies. share: 0.99 for P99.
  double quantile(double share) const;
  /// Puts another run behind this one; groups are the same.
  void append(const Outcome& other);
};

/// Sees each accepted request as it is sent, where engines work side by side as it ends, with the
/// time of its end; in the other case `dispatcher` says where it is when.
using Observer = std::function<void(const Arrival&, const Dispatch&, const Dispatcher&)>;

/// Sends all requests, or until more than `unserved_max` were refused; what was not sent was not
/// served. What is open at last ends as if nothing followed, and stays open in `dispatcher`, which
/// is for as many models as `problem` has.
Outcome simulate(Dispatcher& dispatcher, const Problem& problem, const Workload& workload,
                 const Observer& observer = nullptr,
                 std::size_t unserved_max = std::numeric_limits<std::size_t>::max());
/// Simulates a placement whose devices are idle at first.
Outcome simulate(const Problem& problem, const Placement& placement, const Workload& workload,
                 std::size_t unserved_max = std::numeric_limits<std::size_t>::max());

} // namespace paceline::placement
