// A look-up, and the forms of answers, on a draft model's lane.
#pragma once

#include "execution/lane_drafter.hpp"
#include "speculation/draft_planner.hpp"

#include <utility>

namespace paceline::execution {

/// The turn that the forms of answers and a look-up have between two passes of the model: they
/// write what they know better into the chains (speculation::Drafters), and the model goes on
/// behind that. A turn takes microseconds of the lane's own thread, and nothing of its device.
/// Threads: the lane's.
class LookupTurn {
public:
  /// The host's Drafter is a look-up that answers at once; null: there is none.
  explicit LookupTurn(LaneDrafter::Parts parts) : drafter_(std::move(parts)) {}

  /// Writes into all chains that have room, of the sequences whose form drafts or that want a
  /// look-up. changed: some of these have come or gone since the last turn (DraftPlanner::take).
  void propose(speculation::DraftedSequences<speculation::DraftSequence>& sequences, bool changed);
  void abandon() { drafter_.abandon(); }

private:
  LaneDrafter drafter_;
};

} // namespace paceline::execution
