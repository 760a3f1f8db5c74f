// What the scheduler wants done. Values that name who is to do it and what; an adapter carries them
// out in their order (actors/scheduler.cpp).
#pragma once

#include "scheduling/batch.hpp"
#include "scheduling/commits.hpp"
#include "scheduling/kv.hpp"

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

namespace paceline::scheduling {

/// The KV-cache manager is asked; its answer comes back as Scheduler::reserved.
struct AskReserve {
  KvReserve wanted;
  Epoch asked;
};
/// The same for Scheduler::grown.
struct AskGrow {
  KvGrow wanted;
  Epoch residency;
};

/// A call of Scheduler::windows_ready with this ticket once every chain is settled up to its
/// position.
struct AwaitWindows {
  std::uint64_t ticket = 0;
  std::vector<std::pair<ChainRef, int>> windows;
};
/// A call of Scheduler::time_passed after so long.
struct WakeAfter {
  base::Duration delay{};
};

/// Residencies are over (CacheResidency::over): the draft drops every reference to their memory.
struct Forget {};

/// The draft was caught with an inconsistent draw, and is not to be used again.
struct DisableDraft {};
/// The target's steps keep failing: it goes on where it has a standby.
struct MoveTarget {};
/// Its lane stands still: it is ended, and has a successor with another one.
struct EndTarget {};
struct EndDraft {};

using Action = std::variant<Batch, Commits, Failed, speculation::Frontiers, Forget, AskReserve,
                            AskGrow, KvRelease, KvPublish, KvReset, AwaitWindows, WakeAfter,
                            DisableDraft, MoveTarget, EndTarget, EndDraft>;

/// One fact being taken in: when it came, and what is to be done about it, in order.
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
