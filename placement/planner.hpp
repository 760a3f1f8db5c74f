// Searches for a placement.
#pragma once

#include "placement/layouts.hpp"
#include "placement/selection.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace paceline::placement {

struct PlanOptions {
  std::uint64_t seed = 0; ///< Seed of the random changes at the end.
  int beam = 2;           ///< Placements that a beam follows at once.
  int trials = 600;       ///< Random changes at the end, of each of the best; more for few devices.
  ShapeBounds bounds;
  /// Groups that are there and stay, on consecutive devices; empty: they are part of the search.
  std::vector<Shape> groups;
  int threads = 1;
  /// Placements that compete with all that is found, and are improved like it: baselines, for
  /// example.
  std::vector<Placement> seeds;
  /// Other draws of the same traffic: the best few are compared on them at last, so that the result
  /// is not the one that happens to fit `workload`. Empty: there are none.
  std::vector<Workload> validation;
  Stop stop = [] { return false; };
  /// Is told from any thread, one at a time. done: 0 to 1, of this part of the search.
  std::function<void(const std::string& part, double done)> progress;
};

/// Divides models into buckets and devices among them, tries every layout of groups for each bucket
/// with a greedy selection, follows the best of all with beams, and improves those by random
/// changes (Li et al. 2023, section 4.2). Where all is served there is nothing to choose by, so the
/// same is done for traffic that comes faster, as long as the result serves all of `workload`, too;
/// the score of the result is of `workload`. None of the seeds is better on the validation's
/// traffic. The result depends on nothing but the arguments, unless `stop` cuts the search short:
/// then it is the best until then. `problem` has a model and a device, and `workload` is of its
/// models.
Selection plan(const Problem& problem, const Workload& workload, const PlanOptions& options);

} // namespace paceline::placement
