// Selects which models lie on which of given groups.
#pragma once

#include "placement/simulator.hpp"

#include <cstddef>
#include <functional>

namespace paceline::placement {

/// A score says how good a placement is on a workload: what is served comes first, then how fast.
struct Score {
  double attainment = 0;
  double mean_latency = 0;
  bool better_than(const Score& other) const;
};
Score score(const Outcome& outcome);

/// Is asked between simulations, from any thread; true: end with what has been found.
using Stop = std::function<bool()>;

struct Selection {
  Placement placement;
  Score score;
  std::size_t simulations = 0; ///< Simulations that it took.
};

/// Fills groups (their models are ignored) with models. First each model gets a place, on the group
/// with the least to do; then, over and over, the model with most unserved requests gets another
/// place on the group that was least busy (Li et al. 2023, section 4.2: beam search on simulated
/// attainment, with that paper's fast choice of what to try). beam: placements that are followed at
/// once; 1 is greedy, and gives places to several models before it simulates again where there are
/// many. Where all is served, room that is left is given to all in turn, for traffic that differs
/// from the workload. The best placement on the way is the result, also where `stop` cut it short.
Selection select_models(const Problem& problem, Placement groups, const Workload& workload,
                        int beam, const Stop& stop);

/// Tries `trials` random changes (a model more, one less, one for another, two groups exchange
/// one), and keeps those that make the score better. The same seed gives the same changes.
Selection improve(const Problem& problem, Selection from, const Workload& workload, int trials,
                  std::uint64_t seed, const Stop& stop);

} // namespace paceline::placement
