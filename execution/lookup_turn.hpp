// A look-up on a draft model's lane.
#pragma once

#include "execution/lane_drafter.hpp"
#include "speculation/draft_planner.hpp"

#include <utility>

namespace paceline::execution {

/// The turn that a look-up has between two passes of the model: it writes what it knows better into
/// the chains (speculation::Drafters), and the model goes on behind that. A turn takes microseconds
/// of the lane's own thread, and nothing of its device. Threads: the lane's.
class LookupTurn {
public:
  /// The host's Drafter is a look-up that answers at once.
  explicit LookupTurn(LaneDrafter::Parts parts) : drafter_(std::move(parts)) {}

  /// Writes into all chains that have room, of the sequences that want a look-up. changed: some of
  /// these have come or gone since the last turn (DraftPlanner::take).
  void propose(speculation::DraftedSequences<speculation::DraftSequence>& sequences, bool changed);
  void abandon() { drafter_.abandon(); }

private:
  LaneDrafter drafter_;
};

} // namespace paceline::execution
