// The scheduler decides which sequences run next, with which windows, in which pages. It is plain
// logic: facts in, actions out; no actor, no lane, no clock.
#pragma once

#include "scheduling/batch_builder.hpp"
#include "scheduling/committer.hpp"
#include "scheduling/deadlines.hpp"
#include "scheduling/in_flight.hpp"
#include "scheduling/residency.hpp"
#include "scheduling/round_meter.hpp"
#include "scheduling/step_cost.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::scheduling {

/// The present neighbours: a number for each, and another one for its successor; 0: there is none.
struct Peers {
  std::uint64_t version = 0; ///< Counts up; an older one is stale.
  std::uint64_t draft = 0;
  std::uint64_t target = 0;
  std::uint64_t sampler = 0;
  std::uint64_t kv_cache = 0;
  std::string lost = {}; ///< Which neighbour was lost, and of what; for messages.
};

/// The next batch is the first action when the verdicts of a batch are taken in: between two target
/// steps stand this class' few microseconds, no request to the cache manager and no other actor's
/// answer. Where a full hit is likely enough, the next batch is *pre-enqueued*: it is sent at once,
/// as that hit would have it. The target's lane goes on with it the moment the hit is known, and
/// the verdicts only say that it has.
///
/// Each call takes in one fact at `now`, and returns what is to be done about it, in order.
/// Threads: one.
class Scheduler {
public:
  using Actions = std::vector<Action>;

  explicit Scheduler(SchedulerConfig config);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Takes a request to decode, with all its tokens so far.
  Actions admit(const Admit& request, base::TimePoint now);
  /// Takes a request's end that was decided elsewhere.
  Actions abandon(SequenceId id, base::TimePoint now);
  /// Take the answers to AskReserve and AskGrow; `granted` is false where none came.
  Actions reserved(SequenceId id, Epoch asked, const KvGrant& grant, base::TimePoint now);
  Actions grown(SequenceId id, Epoch residency, const KvGrant& grant, base::TimePoint now);
  /// Takes the verdicts of a batch; stale ones are dropped.
  Actions judged(const Verdicts& verdicts, base::TimePoint now);
  /// Is told that the windows of this AwaitWindows are there.
  Actions windows_ready(std::uint64_t ticket, base::TimePoint now);
  /// Takes in that neighbours came or went: sequences that depended on the old ones are recomputed.
  Actions peers_changed(const Peers& peers, base::TimePoint now);
  /// Looks for waits that have lasted too long.
  Actions time_passed(base::TimePoint now);

private:
  void schedule(Turn& turn);
  void refuse_late(Turn& turn);
  bool send_batch(Turn& turn);
  void send_behind(Turn& turn);
  const InFlightBatch& send(Turn& turn, InFlightBatch made);
  void take_front(Turn& turn, const Verdicts& verdicts);
  void take_error(Turn& turn, const InFlightBatch& flight, const Error& error);
  std::vector<SequenceId> take_verdicts(Turn& turn, const InFlightBatch& flight,
                                        const Verdicts& verdicts, Commits& commits);
  void go_on(Turn& turn, const Verdicts& before);
  void follow(std::uint64_t before, const Verdict& verdict);
  void expect_next(Turn& turn, base::TimePoint begun);
  void expect_in_time(Turn& turn, base::TimePoint begun);
  void abandon_target(Turn& turn);
  void give_up_batches(Turn& turn);
  void watch_given_up(Turn& turn);
  void recompute(Turn& turn, Sequence& s, const Error* why = nullptr);
  bool move_target(Turn& turn, const Error* why);
  void target_path_lost(Turn& turn);
  void clear_predecessor(Turn& turn);
  PrefillPath path_of(const SequenceSpec& spec) const;
  void end(Turn& turn, SequenceId id);

  SchedulerConfig config_;
  Sequences sequences_;
  EpochMint epochs_;
  Alarms alarms_;
  StepCost cost_;
  RequestMix mix_;
  Drafting drafting_;
  Deadlines deadlines_;
  QueueOrder order_;
  Residency residency_;
  BatchBuilder builder_;
  Committer committer_;

  Peers peers_;
  std::uint64_t batches_; ///< Numbers go on through incarnations: an old one's verdicts may come.
  InFlightBatches in_flight_;
  GivenUpBatches given_up_;
  bool stalled_ = false; ///< The target was told to end, since it stood still.
  RoundMeter meter_;
};

} // namespace paceline::scheduling
