// Actions are what the scheduler wants done: values that name who is to do what. An adapter carries
// them out in their order (actors/scheduler.cpp).
#pragma once

#include "scheduling/batch.hpp"
#include "scheduling/commits.hpp"
#include "scheduling/kv.hpp"

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

namespace paceline::scheduling {

/// Asks the KV-cache manager; its answer comes back as Scheduler::reserved.
struct AskReserve {
  KvReserve wanted;
  Epoch asked;
};
/// Asks it for more; the answer comes back as Scheduler::grown.
struct AskGrow {
  KvGrow wanted;
  Epoch residency;
};

/// Asks for a call of Scheduler::windows_ready with this ticket, once every chain is settled up to
/// its position.
struct AwaitWindows {
  std::uint64_t ticket = 0;
  std::vector<std::pair<ChainRef, int>> windows;
};
/// Asks for a call of Scheduler::time_passed after this delay.
struct WakeAfter {
  base::Duration delay{};
};

/// Residencies are over (CacheResidency::over): the draft drops every reference to their memory.
struct Forget {};

/// The draft was caught with an inconsistent draw, and is not to be used again.
struct DisableDraft {};
/// The target's steps keep failing, so it goes on at its standby, if it has one.
struct MoveTarget {};
/// The target's lane stands still: the target is ended, and has a successor with another lane.
struct EndTarget {};
struct EndDraft {};

using Action = std::variant<Batch, Commits, Failed, speculation::Frontiers, Forget, AskReserve,
                            AskGrow, KvRelease, KvPublish, KvReset, AwaitWindows, WakeAfter,
                            DisableDraft, MoveTarget, EndTarget, EndDraft>;

/// A turn takes in one fact: when it came, and what is to be done about it, in order.
template <class Done>
struct TurnOf {
  base::TimePoint now;
  std::vector<Done> actions;

  template <class What>
  void act(What&& what) {
    actions.emplace_back(std::forward<What>(what));
  }
};
using Turn = TurnOf<Action>;

} // namespace paceline::scheduling
