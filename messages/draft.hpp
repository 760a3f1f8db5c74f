// Scheduler and sampler to draft: where a sequence stands.
#pragma once

#include "gpu/kv_pool.hpp"
#include "messages/chain.hpp"
#include "messages/sequence.hpp"

#include <atomic>
#include <memory>
#include <vector>

namespace paceline::messages {

/// One stay of a sequence in the caches, from grant to release. The draft's lane notes how many
/// leading committed tokens its pages hold, which is what the prefix cache may keep afterwards.
struct Residence {
  Epoch epoch;             ///< Of the grant.
  int cached_at_grant = 0; ///< Leading tokens that came from the prefix cache (draft's pages).
  std::atomic<int> cached{0};
  /// Set before Forget is sent, and when the scheduler dies. A frontier of the stay may arrive
  /// behind that: it is dropped.
  std::atomic<bool> over{false};
};
using ResidenceRef = std::shared_ptr<Residence>;

/// What the draft may spend on outcomes of the verification under way other than its chain's own.
struct Forking {
  int rows = 0;   ///< Forks that a pass advances, for this sequence; 0: none.
  int window = 0; ///< Tokens of each.
  sampling::Odds odds;
};

/// (sequence, committed length, epoch) with all that is needed to draft from there: the draft
/// keeps nothing that it could not rebuild from one of these.
struct Frontier {
  SequenceSpecRef spec;
  Epoch epoch;
  TokenLogView log;
  int log_length = 0;          ///< Committed tokens to read from `log` ...
  std::vector<TokenId> tokens; ///< ... and those that follow them (the log may not have them yet).
  ChainRef chain;              ///< Already begun at `length()`, or kept after a hit.
  gpu::PageTableRef pages;     ///< The draft's.
  ResidenceRef residence;
  Forking forking;

  int length() const { return log_length + int(tokens.size()); }
};

/// Several at once: the verdicts of one target step.
struct Frontiers {
  std::vector<Frontier> sequences;
};

/// The way to the draft's lane, lent by the draft actor: what a verification has found reaches the
/// draft from the thread that knows it first, without waking an actor in between. Threads: any.
class DraftInbox {
public:
  virtual ~DraftInbox() = default;
  /// A hint: it is lost when the draft is gone.
  virtual void post(const Frontiers& frontiers) = 0;
};
struct Borrow {};
struct Lent {
  std::shared_ptr<DraftInbox> inbox;
};

/// Stays are over (Residence::over): drop every reference to their memory.
struct Forget {};

} // namespace paceline::messages
