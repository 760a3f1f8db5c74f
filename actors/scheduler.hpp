// The scheduler actor: which sequences run next, with which windows, in which pages.
#pragma once

#include "actors/sequence.hpp"
#include "actors/stall_watch.hpp"
#include "actors/telemetry.hpp"
#include "messages/interfaces.hpp"
#include "sampling/policy.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace paceline::actors {

struct SchedulerParts {
  std::uint32_t incarnation = 1; ///< Of this scheduler; epochs of earlier ones are stale.
  sampling::PolicyOptions policy;
  bool has_draft = false;
  int max_model_len = 0;
  int max_num_seqs = 16;
  int prefill_chunk = 512;
  int fast_chunk = 0;       ///< Prompts go by the fast path, in chunks of this; 0: none do.
  int attention_window = 0; ///< Positions that the target's rows see at most; 0: all.
  int logit_rows = 0;       ///< Rows of logits that the target's workspace has.
  std::shared_ptr<Telemetry> telemetry;
  FaultOptions faults;
  bool has_reserve = false; ///< The target can go on elsewhere; the supervisor knows.
};

/// One batch is under way at a time. When its verdicts come, the next one is sent from the same
/// handler: between two target steps stand this actor's few microseconds, no request to the cache
/// manager and no other actor's answer. Where a full hit is likely enough, the next one is *armed*:
/// sent at once, as that hit would have it. The target's lane goes on with it the moment the hit is
/// known, and the verdicts only say that it has.
class Scheduler {
public:
  using Handle = messages::SchedulerActor;
  static constexpr const char* name = "scheduler";

  Scheduler(Handle::pointer self, SchedulerParts parts);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  Handle::behavior_type make_behavior();

private:
  using Sequences = std::map<messages::SequenceId, Sequence>;

  // scheduler.cpp: a sequence's life
  void admit(const messages::Admit& request);
  messages::PrefillPath path_of(const messages::SequenceSpec& spec) const;
  void abandon(messages::SequenceId id);
  void reserve(Sequence& s);
  void take_grant(messages::SequenceId id, messages::Epoch asked, const messages::KvGrant& grant);
  void ask_again(Sequence& s);
  void grow(Sequence& s, messages::PerPool<int> capacity);
  void grew(messages::SequenceId id, messages::Epoch stay, const messages::KvGrant& grant);
  void publish(const Sequence& s);
  void preempt_for(Sequence& needy);
  void evict(Sequence& s, bool target_pages_right);
  void rebuild(Sequence& s, const Error* why = nullptr);
  bool move_target(const Error* why);
  void end(messages::SequenceId id);
  void give_up(messages::SequenceId id, Error why);
  void rewire(const messages::Wiring& wiring);
  void clear_predecessor();
  std::vector<messages::SequenceId> in_caches() const;

  // scheduler_batch.cpp: what runs next
  void pump();
  void admit_waiting();
  bool wait_for_windows();
  bool should_wait(const Sequence& s) const;
  void stop_waiting();
  void send_batch();
  struct Allowance;
  std::optional<messages::BatchEntry> entry_for(Sequence& s, Allowance& left);
  void plan_next(Sequence& s, const messages::Forking& forking, messages::BatchEntry& entry);
  void arm();
  bool others_want_rows() const;
  std::optional<messages::BatchEntry> entry_behind(const messages::BatchEntry& before,
                                                   Allowance& left);
  void ensure_pages(Sequence& s);
  bool holds_unseen_pages(const Sequence& s) const;
  bool speculates(const Sequence& s) const;
  sampling::Plan plan_for(const Sequence& s) const;
  messages::Forking forking(std::size_t sequences) const;

  // scheduler_verdicts.cpp: what became of it
  void take(const messages::Verdicts& verdicts);
  struct Flight;
  void go_on(Flight armed, const messages::Verdicts& verdicts);
  bool apply(const messages::BatchEntry& entry, const messages::Verdict& verdict,
             messages::Commits& commits);
  bool commit(Sequence& s, const messages::Verdict& verdict, messages::Commits& commits);
  void follow_chain(Sequence& s, const messages::BatchEntry& entry,
                    const messages::Verdict& verdict);
  void count(Sequence& s, const messages::BatchEntry& entry, const messages::Verdict& verdict);
  void observe(sampling::RoundObservation round, const Flight& flight, base::Duration draft_time);
  void retire_chain(Sequence& s);
  void distrust_draft();

  // Deadlines.
  void check_deadlines();
  void wake_at(base::TimePoint when);
  base::Duration draft_patience() const;
  void begin_patience(int rows);
  void give_up_flight();
  void abandon_target();
  void watch_draft();

  base::TimePoint now() const;
  messages::Epoch mint();
  Sequence* find(messages::SequenceId id);

  Handle::pointer self_;
  SchedulerParts parts_;
  messages::Wiring wiring_;
  sampling::SpeculationPolicy policy_;
  Sequences sequences_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t epochs_ = 0;
  bool pages_short_ = false; ///< Pages were refused; nobody asks until some come back, or a while.

  /// The batch under way.
  struct Flight {
    messages::Batch batch;
    base::TimePoint sent;
    std::optional<base::TimePoint> overdue; ///< When the target's lane counts as stalled.
    bool prefill = false;
    messages::DraftActor draft; ///< That was to go on after its verdicts.
    SpeculationMode mode = SpeculationMode::off;
  };
  std::optional<Flight> flight_;
  std::optional<Flight> armed_;             ///< Behind it, should its verdicts say so.
  std::optional<messages::Verdicts> early_; ///< Of what is armed: they overtook those before them.
  std::uint64_t batches_; ///< Numbered through all incarnations: an old one's verdicts may come.
  std::optional<base::TimePoint> last_verdict_; ///< Of the batch just before, when nothing idled.
  StepTimes step_times_;                        ///< From batch to verdicts.
  DraftWatch draft_watch_;

  /// A wait for windows.
  struct Wait {
    std::uint64_t ticket = 0;
    base::TimePoint since;
  };
  std::optional<Wait> wait_;
  std::uint64_t tickets_ = 0;
  /// After the draft was late nobody waits for it until then; the pause doubles each time.
  base::TimePoint distrust_until_{};
  base::Duration distrust_pause_{};

  std::set<base::TimePoint> alarms_; ///< Wakes under way.
};

} // namespace paceline::actors
