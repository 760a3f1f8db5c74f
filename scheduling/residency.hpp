// Decides which sequences have pages of the KV caches: admission, growth, preemption, release.
#pragma once

#include "scheduling/actions.hpp"
#include "scheduling/alarms.hpp"
#include "scheduling/config.hpp"
#include "scheduling/drafting.hpp"
#include "scheduling/queue_order.hpp"
#include "scheduling/sequences.hpp"

namespace paceline::scheduling {

/// It alone knows which sequences have pages, so it alone decides who of those let in begins. One
/// sequence at a time asks for its first pages, in QueueOrder, and none overtakes it while
/// pages are short. When pages run out the last in order gives up its own, and is recomputed from
/// its committed tokens. Pages are asked for ahead of need, so that no step waits for the cache
/// manager.
class Residency {
public:
  Residency(const SchedulerConfig& config, Sequences& sequences, EpochMint& epochs,
            Drafting& drafting, Alarms& alarms, QueueOrder& order);

  /// Asks for pages for the sequence whose turn it is, where there is room for one more.
  void admit_next(Turn& turn);
  /// Takes the answers to AskReserve and AskGrow; `granted` is also false where no answer came.
  /// What they are about may be over by now. Returns whether a step may be possible that was not
  /// before.
  bool reserved(Turn& turn, SequenceId id, Epoch asked, const KvGrant& grant);
  bool grown(Turn& turn, SequenceId id, Epoch residency, const KvGrant& grant);
  /// Asks for pages up to two windows ahead of the frontier.
  void ensure_pages(Turn& turn, Sequence& s);

  /// Lets what the sequence's pages hold by now serve others.
  void publish(Turn& turn, const Sequence& s);
  /// Takes a sequence's pages; steps in flight keep theirs alive until they have retired. valid:
  /// what the pages hold is right, and may serve others.
  void evict(Turn& turn, Sequence& s, bool valid);
  /// Forgets a sequence, pages and all.
  void end(Turn& turn, SequenceId id);
  /// Does the same, as a failure that its request is told of.
  void fail(Turn& turn, SequenceId id, Error why);

  /// Lets refused sequences ask again, since pages may have come back.
  void retry() { pages_short_ = false; }

private:
  void reserve(Turn& turn, Sequence& s);
  void begin(Turn& turn, Sequence& s, const KvGrant& grant);
  void grow(Turn& turn, Sequence& s, int capacity, int windowed_capacity);
  bool end_forks(Turn& turn);
  bool forks_may_hold_pages(const Sequence& s, base::TimePoint now) const;
  void preempt_for(Turn& turn, Sequence& needy);
  void ask_again(Turn& turn, Sequence& s);
  PerPool<int> valid_of(const Sequence& s) const;
  bool runs_alone(const Sequence& s) const;
  bool holds_unseen_pages(const Sequence& s) const;

  const SchedulerConfig& config_;
  Sequences& sequences_;
  EpochMint& epochs_;
  Drafting& drafting_;
  Alarms& alarms_;
  QueueOrder& order_;
  bool pages_short_ = false; ///< Pages were refused; nobody asks until some may have come back.
};

} // namespace paceline::scheduling
