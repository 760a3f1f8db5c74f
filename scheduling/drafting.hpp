// The draft as the scheduler sees it.
#pragma once

#include "scheduling/draft_health.hpp"
#include "scheduling/draft_planning.hpp"
#include "scheduling/window_waits.hpp"

namespace paceline::scheduling {

/// How it does, what it is to write, what steps wait for, and what becomes of its chains.
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

  /// Nobody will go on with the sequence's chain. successor: a fork of it that goes on.
  void retire_chain(Sequence& s, const Chain* successor = nullptr);
  void retire_all_chains(base::TimePoint now);
  /// No more is written for outcomes other than the chains' own. False: nothing was.
  bool end_forks();
  /// It drew a token that its q and the key do not give: it is not used again.
  void disable(Turn& turn);
  /// Ends a draft that stands still. One that is late is done without; only this one has to go.
  void watch(Turn& turn);

private:
  const SchedulerConfig& config_;
  Sequences& sequences_;
};

} // namespace paceline::scheduling
