#include "scheduling/scheduler.hpp"

#include "scheduling/limits.hpp"
#include "scheduling/round.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace paceline::scheduling {

Scheduler::Scheduler(SchedulerConfig config)
    : config_(std::move(config)), epochs_(config_.incarnation), cost_(config_.step_prior),
      drafting_(config_, sequences_, epochs_, cost_),
      deadlines_(config_, sequences_, cost_, drafting_), order_(config_.scheduling),
      residency_(config_, sequences_, epochs_, drafting_, alarms_, order_),
      builder_(config_, sequences_, epochs_, drafting_, residency_, cost_, mix_),
      committer_(config_, drafting_, residency_, order_),
      batches_(std::uint64_t(config_.incarnation) << 40) {}

// Closes what its sequences had: the lanes let go of it, and a successor begins anew.
Scheduler::~Scheduler() {
  for (auto& [id, s] : sequences_) {
    if (s.chain)
      s.chain->close();
    if (s.residency)
      s.residency->over.store(true, std::memory_order_release);
  }
}

// ---- facts ----

Scheduler::Actions Scheduler::admit(const Admit& request, base::TimePoint now) {
  Turn turn{now, {}};
  if (sequences_.find(request.spec->id))
    return {};
  drafting_.watch(turn); // nobody has looked since the last request ended
  Sequence& s = sequences_.add(request.spec);
  order_.arrive(s, now);
  const int room = request.spec->prompt_tokens + request.spec->max_tokens;
  s.log = std::make_shared<speculation::TokenLog>(
      request.tokens, std::max(std::size_t(room), request.tokens.size()));
  s.stats.verify = request.spec->rule;
  for (const std::string& name : config_.drafters)
    s.stats.drafters.push_back({.name = name});
  if (drafting_.planning.forms(s))
    s.stats.drafters.push_back({.name = form_drafter});
  s.path = path_of(*request.spec);
  if (auto late = deadlines_.refusal(s, now))
    residency_.fail(turn, request.spec->id, *std::move(late));
  schedule(turn);
  return std::move(turn.actions);
}

/// Sends a prompt's whole chunks by the fast path, except for its last token, whose logits are
/// asked for. A prompt that is scored needs all its logits.
PrefillPath Scheduler::path_of(const SequenceSpec& spec) const {
  const int chunk = config_.fast_chunk;
  if (chunk == 0 || spec.prompt_logprobs)
    return {};
  return {(spec.prompt_tokens - 1) / chunk * chunk, chunk};
}

Scheduler::Actions Scheduler::abandon(SequenceId id, base::TimePoint now) {
  Turn turn{now, {}};
  end(turn, id);
  schedule(turn);
  return std::move(turn.actions);
}

Scheduler::Actions Scheduler::reserved(SequenceId id, Epoch asked, const KvGrant& grant,
                                       base::TimePoint now) {
  Turn turn{now, {}};
  if (residency_.reserved(turn, id, asked, grant)) {
    deadlines_.began(*sequences_.find(id));
    schedule(turn);
  }
  return std::move(turn.actions);
}

Scheduler::Actions Scheduler::grown(SequenceId id, Epoch residency, const KvGrant& grant,
                                    base::TimePoint now) {
  Turn turn{now, {}};
  const bool taken = residency_.grown(turn, id, residency, grant);
  if (taken && in_flight_.size() < std::size_t(config_.stages)) // otherwise the next verdicts do
    schedule(turn);
  return std::move(turn.actions);
}

Scheduler::Actions Scheduler::judged(const Verdicts& verdicts, base::TimePoint now) {
  Turn turn{now, {}};
  if (in_flight_.is_front(verdicts.batch))
    take_front(turn, verdicts);
  else
    in_flight_.keep(verdicts);
  while (!in_flight_.empty() && in_flight_.front().verdicts)
    take_front(turn, Verdicts(*std::move(in_flight_.front().verdicts)));
  return std::move(turn.actions);
}

Scheduler::Actions Scheduler::windows_ready(std::uint64_t ticket, base::TimePoint now) {
  Turn turn{now, {}};
  drafting_.waits.windows_ready(ticket);
  schedule(turn);
  return std::move(turn.actions);
}

Scheduler::Actions Scheduler::peers_changed(const Peers& peers, base::TimePoint now) {
  Turn turn{now, {}};
  if (peers.version <= peers_.version)
    return {};
  const Peers old = std::exchange(peers_, peers);
  drafting_.health.replaced_by(peers.draft);
  if (old.version == 0 && config_.incarnation > 1)
    clear_predecessor(turn);
  if (old.target != peers.target || old.sampler != peers.sampler || old.kv_cache != peers.kv_cache)
    target_path_lost(turn);
  else if (old.draft != peers.draft)
    drafting_.retire_all_chains(turn.now); // their writer is gone; the next verdict begins others
  watch_given_up(turn);
  residency_.retry();
  drafting_.waits.stop();
  schedule(turn);
  return std::move(turn.actions);
}

Scheduler::Actions Scheduler::time_passed(base::TimePoint now) {
  Turn turn{now, {}};
  alarms_.rang(now);
  drafting_.waits.end_late(now);
  if (!in_flight_.empty() && in_flight_.front().overdue && now >= *in_flight_.front().overdue)
    abandon_target(turn);
  watch_given_up(turn);
  residency_.retry();
  drafting_.watch(turn);
  if (const auto ends = drafting_.waits.ends())
    alarms_.wake_at(turn, *ends);
  else if (!in_flight_.empty() && in_flight_.front().overdue)
    alarms_.wake_at(turn, *in_flight_.front().overdue);
  schedule(turn);
  return std::move(turn.actions);
}

// ---- what runs next ----

/// Refuses sequences that would be given pages next and cannot make their deadline any more.
void Scheduler::refuse_late(Turn& turn) {
  while (Sequence* next = order_.next(sequences_)) {
    auto late = deadlines_.refusal(*next, turn.now);
    if (!late)
      return;
    residency_.fail(turn, next->spec->id, *std::move(late));
  }
}

void Scheduler::schedule(Turn& turn) {
  if (config_.scheduling == SchedulingPolicy::deadline)
    refuse_late(turn);
  if (peers_.version > 0)
    residency_.admit_next(turn);
  if (drafting_.waits.await_held_up(turn)) // their draft counts as dead after the timeout
    alarms_.wake_at(turn, turn.now + drafting_.waits.timeout());
  while (in_flight_.leading() < std::size_t(config_.stages)) {
    const bool others_go = config_.stages > 1 && drafting_.waits.any_ready(turn.now);
    if (!others_go && drafting_.waits.waiting())
      return;
    if (!others_go && drafting_.waits.begin(turn))
      return alarms_.wake_at(turn, *drafting_.waits.ends());
    if (!send_batch(turn))
      return;
  }
}

/// Returns false when there is nothing to send.
bool Scheduler::send_batch(Turn& turn) {
  if (peers_.target == 0)
    return false;
  InFlightBatch made = builder_.build(turn, batches_ + 1);
  if (made.batch.entries.empty()) {
    if (in_flight_.empty())
      meter_.idle();
    return false;
  }
  const bool alone = in_flight_.empty();
  const InFlightBatch& sent = send(turn, std::move(made));
  if (alone)
    expect_in_time(turn, turn.now);
  send_behind(turn);
  for (const BatchEntry& entry : sent.batch.entries)
    residency_.ensure_pages(turn, *sequences_.find(entry.spec->id));
  return true;
}

/// Sends the batches behind those in flight, where there are to be some: behind the one that runs
/// on a device, or one in each stage. No more than that wait for the first stage: it would begin
/// work that the verdict from the last stage may just have made useless.
void Scheduler::send_behind(Turn& turn) {
  const std::size_t most = std::max<std::size_t>(2, std::size_t(config_.stages));
  for (std::size_t i = 0; peers_.target != 0 && i < in_flight_.size(); ++i) {
    if (in_flight_.size() >= most)
      return;
    if (in_flight_.behind(in_flight_[i].batch.id))
      continue;
    if (auto made = builder_.build_behind(in_flight_[i], turn.now))
      send(turn, *std::move(made));
  }
}

const InFlightBatch& Scheduler::send(Turn& turn, InFlightBatch made) {
  made.batch.id = ++batches_;
  made.batch.handles = peers_.version;
  made.batch.draft_timeout = drafting_.waits.timeout();
  made.draft = peers_.draft;
  const InFlightBatch& sent = in_flight_.push(std::move(made));
  turn.act(sent.batch);
  return sent;
}

/// Waits for the first batch in flight. begun: when the lane's turn came to it.
void Scheduler::expect_in_time(Turn& turn, base::TimePoint begun) {
  InFlightBatch& flight = in_flight_.front();
  flight.sent = begun;
  flight.drafted = flight.drafting();
  const base::Duration patience = config_.faults.stall_patience;
  if (patience.count() <= 0)
    return;
  flight.overdue = turn.now + cost_.timeout(flight.rows, flight.context(), patience) +
                   2 * flight.batch.draft_timeout + config_.stage_wait;
  alarms_.wake_at(turn, *flight.overdue);
}

// ---- what became of a batch ----

void Scheduler::end(Turn& turn, SequenceId id) {
  if (const Sequence* s = sequences_.find(id))
    mix_.ended({double(s->spec->prompt_tokens - s->cached_tokens), double(s->stats.rounds)},
               {double(s->spec->prompt_tokens), double(s->spec->max_tokens)});
  residency_.end(turn, id);
}

void Scheduler::take_front(Turn& turn, const Verdicts& verdicts) {
  const InFlightBatch flight = in_flight_.pop();
  if (verdicts.error)
    return take_error(turn, flight, *verdicts.error);
  Commits commits;
  const std::vector<SequenceId> ended = take_verdicts(turn, flight, verdicts, commits);
  const base::Duration beside = flight.drafting() - flight.drafted;
  cost_.observe(verdicts.rows, flight.context(), verdicts.busy,
                config_.policy.shares_device ? beside : base::Duration::zero());
  config_.telemetry->step_cost_error.store(cost_.median_error(), std::memory_order_relaxed);
  if (flight.draft != peers_.draft) // whoever was to write what goes on now is gone
    drafting_.retire_all_chains(turn.now);
  auto round = meter_.end(flight, verdicts, turn.now, *config_.telemetry);
  round.sharing = cost_.sharing();
  drafting_.planning.observe(round);
  for (const SequenceId id : ended)
    end(turn, id);
  go_on(turn, verdicts);
  expect_next(turn, verdicts.end);
  schedule(turn); // the next batch before the news: the target waits for it
  if (!commits.sequences.empty())
    turn.act(std::move(commits));
  drafting_.watch(turn);
}

void Scheduler::take_error(Turn& turn, const InFlightBatch& flight, const Error& error) {
  in_flight_.leave_behind(flight.batch.id, {});
  if (error.code == ErrorCode::unavailable) // its lane was closed: it is dead
    peers_.target = 0;
  for (const BatchEntry& entry : flight.batch.entries)
    if (Sequence* s = sequences_.find(entry.spec->id); s && s->awaits(entry.epoch))
      recompute(turn, *s, &error);
  expect_next(turn, turn.now);
  schedule(turn);
}

/// Returns who has ended. A verdict is stale if its sequence ended or lost its pages meanwhile.
std::vector<SequenceId> Scheduler::take_verdicts(Turn& turn, const InFlightBatch& flight,
                                                 const Verdicts& verdicts, Commits& commits) {
  std::vector<SequenceId> ended;
  for (std::size_t i = 0; i < verdicts.sequences.size(); ++i) {
    const BatchEntry& entry = flight.batch.entries[i];
    const Verdict& verdict = verdicts.sequences[i];
    if (verdict.guesses > 0)
      drafting_.planning.observe_guess(verdict.guess_rank);
    Sequence* s = sequences_.find(verdict.sequence);
    if (s && s->awaits(verdict.epoch) && committer_.apply(turn, *s, entry, verdict, commits))
      ended.push_back(entry.spec->id);
  }
  return ended;
}

/// Keeps the batches under way for the chain that came true, or for the fork of it that did.
void Scheduler::follow(std::uint64_t before, const Verdict& verdict) {
  in_flight_.leave_behind(before, verdict.continuations);
  if (verdict.hit != Hit::fork)
    return;
  const Sequence* s = sequences_.find(verdict.sequence);
  for (const Continuation& on : verdict.continuations)
    if (InFlightBatch* const flight = in_flight_.find(on.batch)) {
      BatchEntry& entry = flight->batch.entries.front();
      if (s && s->chain && s->epoch < entry.epoch) // else it ended, or lost its pages
        entry = on_a_fork(entry, s->chain, on.length, on.window, on.own);
    }
  base::add(config_.telemetry->fork_steps, std::int64_t(verdict.continuations.size()));
}

/// Follows the target's lane, which has gone on with what was pre-enqueued, or never will. A
/// sequence that ended or lost its pages meanwhile has a row in vain: its epoch is another.
void Scheduler::go_on(Turn& turn, const Verdicts& before) {
  const auto on = std::ranges::find_if(before.sequences, &Verdict::goes_on);
  if (on == before.sequences.end())
    return in_flight_.leave_behind(before.batch, {});
  follow(before.batch, *on);
  InFlightBatch* const behind = in_flight_.behind(before.batch);
  if (!behind)
    return;
  InFlightBatch& next = *behind;
  next.batch.keep([&](std::size_t i) { return before.sequences[i].goes_on(); });
  next.rows = int(next.batch.entries.size());
  base::add(config_.telemetry->pre_enqueued_steps, 1);
  expect_next(turn, before.end);
  std::vector<Sequence*> running;
  for (const BatchEntry& entry : next.batch.entries)
    if (Sequence* s = sequences_.find(entry.spec->id);
        s && s->running() && s->epoch < entry.epoch) {
      s->in_flight = true;
      s->epoch = entry.epoch;
      running.push_back(s);
    }
  send_behind(turn);
  for (Sequence* s : running)
    residency_.ensure_pages(turn, *s);
}

/// Waits for whichever batch is the first one now.
void Scheduler::expect_next(Turn& turn, base::TimePoint begun) {
  if (!in_flight_.empty() && !in_flight_.front().overdue)
    expect_in_time(turn, begun);
}

// ---- faults ----

/// Gives up a target whose lane stands still. What the step in flight may touch is kept from
/// everybody until it has retired. The sequences are recomputed when the successor is announced.
void Scheduler::abandon_target(Turn& turn) {
  base::add(config_.telemetry->stalls, 1);
  in_flight_.clear();
  given_up_.clear();
  stalled_ = true;
  if (peers_.target != 0)
    turn.act(EndTarget{});
  peers_.target = 0;
}

/// Gives up all batches in flight. Nobody waits for their rest, so a lane that stands still with
/// one is looked for: soon, even if the step is like none before, as requests may lack the pages.
void Scheduler::give_up_batches(Turn& turn) {
  const base::Duration patience = config_.faults.stall_patience;
  for (std::size_t i = 0; i < in_flight_.size() && patience.count() > 0; ++i)
    given_up_.add(in_flight_[i],
                  turn.now + patience + 2 * in_flight_[i].batch.draft_timeout + config_.stage_wait);
  in_flight_.clear();
}

/// Looks for lanes that stand still with such batches. While the target is not whole nobody can be
/// told to end, so this waits until it is.
void Scheduler::watch_given_up(Turn& turn) {
  const auto overdue = given_up_.overdue();
  if (!overdue || peers_.target == 0)
    return;
  if (turn.now >= *overdue)
    return abandon_target(turn);
  alarms_.wake_at(turn, *overdue);
}

/// Recomputes a sequence from its committed tokens, in new pages, or gives it up after too many
/// tries.
void Scheduler::recompute(Turn& turn, Sequence& s, const Error* why) {
  base::add(config_.telemetry->recomputations, 1);
  if (++s.recomputations <= config_.faults.recomputations_max || move_target(turn, why))
    return residency_.evict(turn, s, false);
  Error error{ErrorCode::unavailable,
              "the request was recomputed several times without a new token",
              "see the engine's log for the actor that keeps failing"};
  if (why)
    error.message += "; its last step failed: " + why->message;
  if (why && !why->hint.empty())
    error.hint = why->hint;
  residency_.fail(turn, s.spec->id, std::move(error));
}

/// Moves the target to its standby, if it has one: nothing is sent to the failing target meanwhile,
/// and whoever takes over from this scheduler begins with fresh counts. A step that lacks memory is
/// the request's own affair.
bool Scheduler::move_target(Turn& turn, const Error* why) {
  if (!config_.has_standby || (why && why->code == ErrorCode::out_of_memory))
    return false;
  peers_.target = 0;
  turn.act(MoveTarget{});
  return true;
}

/// Recomputes what the target, sampler or cache manager that was replaced had in its hands.
void Scheduler::target_path_lost(Turn& turn) {
  give_up_batches(turn);
  const bool stalled = std::exchange(stalled_, false);
  const Error why{ErrorCode::unavailable, stalled ? "the target stood still" : peers_.lost, ""};
  std::vector<SequenceId> in_caches; // ids, since what is done to one may end it
  for (const auto& [id, s] : sequences_)
    if (s.phase != Sequence::Phase::waiting)
      in_caches.push_back(id);
  for (const SequenceId id : in_caches) {
    Sequence& s = *sequences_.find(id);
    if (s.in_flight) // its step may be why the target died
      recompute(turn, s, why.message.empty() ? nullptr : &why);
    else
      residency_.evict(turn, s, false);
  }
}

/// Clears what sequences of a scheduler that died had: they may have ended meanwhile, so that
/// nobody else gives it back.
void Scheduler::clear_predecessor(Turn& turn) {
  turn.act(KvReset{});
  if (peers_.draft != 0)
    turn.act(Forget{});
}

} // namespace paceline::scheduling
