// The highest rate of requests that keeps an objective.
#pragma once

#include "apps/laboratory/load/objective.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps::load {

/// One run of a search.
struct Trial {
  double rate = 0; ///< Requests a second; infinite: all at once.
  bool kept = false;
  Figures figures;
};

struct Capacity {
  /// The highest rate that kept the objectives; 0: none did; infinite: even all at once did.
  double rate = 0;
  std::vector<Trial> trials; ///< Trials in the order in which they ran.
  bool interrupted = false;
};

/// A function that makes a run at this rate; none: it was interrupted.
using RunAtRate = std::function<std::optional<Figures>(double rate)>;

/// Doubles or halves the rate from `first` until the objectives (and that no request fails) change
/// sides, and then bisects, in ratios, down to `precision` (0.05: the next higher rate that was
/// tried and failed them is at most 5 % higher).
Capacity find_capacity(const RunAtRate& run, const std::vector<Objective>& objectives, double first,
                       double precision);

/// Draws latency over rate for each objective, with its bound and the capacity, as a whole SVG
/// file.
std::string capacity_svg(const Capacity& capacity, const std::vector<Objective>& objectives);

} // namespace paceline::apps::load
