// Describes when requests for models come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::placement {

/// The traffic of one model. Gaps are independent draws of a Gamma distribution; with periods, time
/// in which nothing comes is inserted between them.
struct Traffic {
  double rate = 0; ///< Requests a second, over all time.
  double cv = 1;   ///< The gaps' standard deviation over their mean; 1: Poisson. Above 0.
  /// Mean lengths of periods with and without requests, in turn (exponentially distributed).
  /// off_seconds 0: requests always come.
  double on_seconds = 0;
  double off_seconds = 0;
};

struct Arrival {
  double seconds = 0; ///< Seconds since the run began.
  int model = 0;
};

struct Workload {
  double seconds = 0;            ///< Length of the run.
  std::vector<Arrival> arrivals; ///< Arrivals by growing time.
};

/// Draws the traffic of all models, in its stationary state from the first moment on. The same seed
/// gives the same arrivals, and a model's do not depend on other models.
Workload draw_workload(std::span<const Traffic> traffic, double seconds, std::uint64_t seed);

/// Divides `total` over n models, the i-th (from 1) in proportion to i^-exponent; 0: all alike.
std::vector<double> power_law_rates(double total, int n, double exponent);

/// Returns consecutive pieces with equally many requests, each beginning at 0 seconds; fewer pieces
/// where there are fewer requests, and none without any. A silence makes a piece long, not empty:
/// an empty piece would count as a run in which everything was answered in time.
std::vector<Workload> split(const Workload& workload, int pieces);
/// Returns its requests for these models, which become 0, 1, ... in that order.
Workload only(const Workload& workload, std::span<const int> models);

} // namespace paceline::placement
