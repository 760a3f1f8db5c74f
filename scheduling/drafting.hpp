// The draft as the scheduler sees it.
#pragma once

#include "scheduling/draft_health.hpp"
#include "scheduling/draft_planning.hpp"
#include "scheduling/window_waits.hpp"

namespace paceline::scheduling {

/// Joins how the draft does, what it is to write, what steps wait for, and what becomes of its
/// chains.
class Drafting {
public:
  Drafting(const SchedulerConfig& config, Sequences& sequences, EpochMint& epochs,
           const StepCost& cost)
      : health(config.has_draft, config.faults.stall_patience),
        planning(config, sequences, epochs, cost, health),
        waits(sequences, config, planning, health), config_(config), sequences_(sequences) {}

  DraftHealth health;
  DraftPlanning planning;
  WindowWaits waits;

  /// Gives up the sequence's chain. successor: a fork of it that goes on.
  void retire_chain(Sequence& s, const Chain* successor = nullptr);
  void retire_all_chains(base::TimePoint now);
  /// Ends what is written for outcomes other than the chains' own. Returns false when nothing was.
  bool end_forks();
  /// Disables a draft that drew a token which its q and the key do not give.
  void disable(Turn& turn);
  /// Ends a draft that stands still. One that is only late is done without, and stays.
  void watch(Turn& turn);

private:
  const SchedulerConfig& config_;
  Sequences& sequences_;
};

} // namespace paceline::scheduling
