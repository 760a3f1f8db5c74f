// A sequence's life: admission, pages, preemption, rebuilding, end.
#include "actors/scheduler.hpp"

#include "actors/limits.hpp"

#include <algorithm>

namespace paceline::actors {

using namespace messages;

namespace {

/// The cache manager answers within microseconds, or is gone.
constexpr std::chrono::seconds grant_patience{5};

} // namespace

Scheduler::Scheduler(Handle::pointer self, SchedulerParts parts)
    : self_(self), parts_(std::move(parts)), policy_(parts_.policy),
      batches_(std::uint64_t(parts_.incarnation) << 40), step_times_(parts_.faults.stall_patience),
      draft_watch_(parts_.faults.stall_patience) {}

// What its sequences had is nobody's now: the lanes let go of it, and a successor begins anew.
Scheduler::~Scheduler() {
  for (auto& [id, s] : sequences_) {
    if (s.chain)
      s.chain->close();
    if (s.residence)
      s.residence->over.store(true, std::memory_order_release);
  }
}

SchedulerActor::behavior_type Scheduler::make_behavior() {
  return {
      [this](const Admit& request) {
        const Handling span(*parts_.telemetry, name, "admit");
        admit(request);
      },
      [this](const Abandon& request) {
        const Handling span(*parts_.telemetry, name, "abandon");
        abandon(request.sequence);
      },
      [this](const Verdicts& verdicts) {
        const Handling span(*parts_.telemetry, name, "verdicts");
        take(verdicts);
      },
      [this](const WindowsReady& ready) {
        const Handling span(*parts_.telemetry, name, "windows");
        if (wait_ && wait_->ticket == ready.ticket) {
          distrust_pause_ = {};
          stop_waiting();
          pump();
        }
      },
      [this](const Wiring& wiring) { rewire(wiring); },
      [this](const Wake&) { check_deadlines(); },
  };
}

base::TimePoint Scheduler::now() const {
  return self_->clock().now();
}

Epoch Scheduler::mint() {
  return {parts_.incarnation, ++epochs_};
}

Sequence* Scheduler::find(SequenceId id) {
  const auto at = sequences_.find(id);
  return at == sequences_.end() ? nullptr : &at->second;
}

void Scheduler::admit(const Admit& request) {
  if (find(request.spec->id))
    return;
  Sequence& s = sequences_[request.spec->id];
  s.spec = request.spec;
  s.arrival = ++arrivals_;
  const int room = request.spec->prompt_tokens + request.spec->max_tokens;
  s.log = std::make_shared<TokenLog>(request.tokens,
                                     std::max(std::size_t(room), request.tokens.size()));
  s.stats.verify = request.spec->rule;
  s.path = path_of(*request.spec);
  pump();
}

/// A prompt's whole chunks go by the fast path, but for its last token, whose logits are asked for.
/// The logits of a prompt that is scored are all asked for.
PrefillPath Scheduler::path_of(const SequenceSpec& spec) const {
  const int chunk = parts_.fast_chunk;
  if (chunk == 0 || spec.prompt_logprobs)
    return {};
  return {(spec.prompt_tokens - 1) / chunk * chunk, chunk};
}

void Scheduler::abandon(SequenceId id) {
  end(id);
  pump();
}

void Scheduler::reserve(Sequence& s) {
  s.phase = Sequence::Phase::reserving;
  const int room = std::min(parts_.max_model_len, s.length() + std::max(s.budget(), 0));
  const int capacity = std::min(room, s.length() + limits::tokens_ahead);
  // A prompt that is scored needs every row, so nothing of it may come from the prefix cache.
  const int shareable = s.scores() ? 0 : s.length();
  const SequenceId id = s.spec->id;
  const Epoch asked = s.epoch = mint();
  KvReserve wanted{id, s.log, shareable, capacity};
  wanted.path = s.path;
  if (parts_.attention_window > 0) // the rest as the prompt is read, and then not all at a time
    wanted.target_ahead = parts_.prefill_chunk + limits::tokens_ahead;
  ask(self_, wiring_.kv_cache, grant_patience, wanted)
      .then([this, id, asked](const KvGrant& grant) { take_grant(id, asked, grant); },
            [this, id, asked](const caf::error&) { take_grant(id, asked, {}); });
}

void Scheduler::take_grant(SequenceId id, Epoch asked, const KvGrant& grant) {
  add(parts_.telemetry->messages, 1);
  Sequence* s = find(id);
  if (!s || s->phase != Sequence::Phase::reserving || s->epoch != asked)
    return; // it was evicted or ended meanwhile, and its pages were released behind this grant
  if (!grant.granted) {
    s->phase = Sequence::Phase::waiting;
    ask_again(*s);
    return;
  }
  s->phase = Sequence::Phase::running;
  if (!s->started)
    s->started = now();
  s->refusals = 0;
  s->target_pages = grant.target;
  s->draft_pages = grant.draft;
  s->cached = grant.cached_target;
  s->cached_tokens = std::max(s->cached_tokens, grant.cached_target);
  s->prompt_logprobs.clear();
  if (s->scores()) // nothing precedes the first
    s->prompt_logprobs.push_back({.token = s->log->first(1).front(), .logprob = 0, .top = {}});
  s->residence = std::make_shared<Residence>();
  s->residence->epoch = mint();
  s->residence->cached_at_grant = grant.cached_draft;
  if (speculates(*s)) { // the draft reads the prompt while the target does
    const auto reading = std::make_shared<Chain>(id);
    reading->begin(s->length(), s->length(), s->length());
    tell(self_, wiring_.draft,
         Frontiers{{{s->spec,
                     mint(),
                     s->log,
                     s->length(),
                     {},
                     reading,
                     s->draft_pages,
                     s->residence,
                     {}}}});
  }
  pump();
}

/// Pages were refused. A request that can never fit was refused at submission: they are only late
/// in coming back, from those that run or from steps that have not retired.
void Scheduler::ask_again(Sequence& s) {
  pages_short_ = true;
  const bool alone = std::none_of(sequences_.begin(), sequences_.end(), [&](const auto& other) {
    return &other.second != &s && other.second.phase == Sequence::Phase::running;
  });
  if (alone && ++s.refusals > limits::reservation_tries_max)
    give_up(s.spec->id, {ErrorCode::out_of_memory, "the KV cache stayed full",
                         "raise --kv-memory or lower --max-num-seqs"});
  else
    wake_at(now() + limits::reservation_pause);
}

void Scheduler::grow(Sequence& s, PerPool<int> capacity) {
  if (s.growing)
    return;
  s.growing = true;
  if (parts_.attention_window > 0) // what is let go of may still serve others
    publish(s);
  const int room = std::min(parts_.max_model_len, s.spec->prompt_tokens + s.spec->max_tokens);
  for (const Pool pool : both_pools)
    capacity[pool] =
        std::min(capacity[pool] + limits::tokens_ahead, std::max(room, capacity[pool]));
  const SequenceId id = s.spec->id;
  const Epoch stay = s.residence->epoch;
  ask(self_, wiring_.kv_cache, grant_patience, KvGrow{id, capacity, s.cached})
      .then([this, id, stay](const KvGrant& grant) { grew(id, stay, grant); },
            [this, id, stay](const caf::error&) { grew(id, stay, {}); });
}

void Scheduler::grew(SequenceId id, Epoch stay, const KvGrant& grant) {
  add(parts_.telemetry->messages, 1);
  Sequence* s = find(id);
  if (!s || s->phase != Sequence::Phase::running || s->residence->epoch != stay)
    return;
  s->growing = false;
  if (grant.granted) {
    s->refusals = 0;
    s->target_pages = grant.target;
    s->draft_pages = grant.draft;
  } else if (s->target_pages->capacity() < s->cached + std::max(s->rows_at_least(), 2)) {
    preempt_for(*s); // it cannot take a single step more
  }
  pump();
}

/// What its pages hold by now may serve others.
void Scheduler::publish(const Sequence& s) {
  const int draft_valid = s.residence ? std::min(s.residence->cached.load(), s.length()) : 0;
  tell(self_, wiring_.kv_cache, KvPublish{s.spec->id, s.log, s.cached, draft_valid, s.path});
}

/// The sequence that came last gives its pages up; it is recomputed from its committed tokens.
void Scheduler::preempt_for(Sequence& needy) {
  Sequence* last = nullptr;
  int running = 0;
  for (auto& [id, s] : sequences_) {
    if (s.phase != Sequence::Phase::running)
      continue;
    ++running;
    if (!last || s.arrival > last->arrival)
      last = &s;
  }
  if (running > 1) {
    add(parts_.telemetry->preemptions, 1);
    evict(*last, true);
  }
  ask_again(needy); // before the one that was evicted
}

/// Takes a sequence's pages. Steps in flight keep theirs alive until they have retired.
void Scheduler::evict(Sequence& s, bool target_pages_right) {
  retire_chain(s);
  const int draft_valid = s.residence ? s.residence->cached.load() : 0;
  if (s.residence)
    s.residence->over.store(true, std::memory_order_release);
  if (wiring_.draft && s.residence)
    tell(self_, wiring_.draft, Forget{});
  tell(self_, wiring_.kv_cache,
       KvRelease{s.spec->id, s.log, target_pages_right ? s.cached : 0,
                 target_pages_right ? std::min(draft_valid, s.length()) : 0, s.path});
  s.target_pages = nullptr;
  s.draft_pages = nullptr;
  s.residence = nullptr;
  s.cached = 0;
  s.growing = s.published = s.in_flight = false;
  s.epoch = mint(); // a verdict under way is stale now
  s.phase = Sequence::Phase::waiting;
  pages_short_ = false;
}

void Scheduler::rebuild(Sequence& s, const Error* why) {
  add(parts_.telemetry->rebuilds, 1);
  if (++s.rebuilds > parts_.faults.rebuilds_max && !move_target(why)) {
    Error error{ErrorCode::unavailable, "the request was rebuilt several times without a new token",
                "see the engine's log for the actor that keeps failing"};
    if (why) {
      error.message += "; its last step failed: " + why->message;
      error.hint = why->hint;
    }
    give_up(s.spec->id, std::move(error));
    return;
  }
  evict(s, false);
}

/// Where it can: nothing is sent to the target that fails meanwhile, and whoever takes over from
/// this actor begins with fresh counts. A step that lacks memory is the request's own affair.
bool Scheduler::move_target(const Error* why) {
  if (!parts_.has_reserve || (why && why->code == ErrorCode::out_of_memory))
    return false;
  wiring_.target = nullptr;
  tell(self_, wiring_.supervisor, MoveTarget{});
  return true;
}

void Scheduler::end(SequenceId id) {
  Sequence* s = find(id);
  if (!s)
    return;
  if (s->phase != Sequence::Phase::waiting)
    evict(*s, true);
  pages_short_ = false;
  sequences_.erase(id);
}

void Scheduler::give_up(SequenceId id, Error why) {
  tell(self_, wiring_.facade, Failed{id, std::move(why)});
  end(id);
}

void Scheduler::rewire(const Wiring& wiring) {
  if (wiring.version <= wiring_.version)
    return;
  const Wiring old = std::exchange(wiring_, wiring);
  if (old.version == 0 && parts_.incarnation > 1)
    clear_predecessor();
  const bool target_path_changed = old.target != wiring.target || old.sampler != wiring.sampler ||
                                   old.kv_cache != wiring.kv_cache;
  if (target_path_changed) {
    give_up_flight();
    for (const SequenceId id : in_caches()) {
      Sequence& s = *find(id);
      if (s.in_flight) // which may be why the target died
        rebuild(s);
      else
        evict(s, false);
    }
  } else if (old.draft != wiring.draft) {
    for (auto& [id, s] : sequences_)
      retire_chain(s); // its writer is gone; the next verdict begins another
  }
  pages_short_ = false;
  stop_waiting();
  pump();
}

/// Those that have pages, or have asked for some. By id: what is done to one may end it.
std::vector<SequenceId> Scheduler::in_caches() const {
  std::vector<SequenceId> ids;
  for (const auto& [id, s] : sequences_)
    if (s.phase != Sequence::Phase::waiting)
      ids.push_back(id);
  return ids;
}

/// The sequences of a scheduler that died may have ended meanwhile: nobody gives back what they
/// had.
void Scheduler::clear_predecessor() {
  tell(self_, wiring_.kv_cache, KvReset{});
  if (wiring_.draft)
    tell(self_, wiring_.draft, Forget{});
}

// ---- deadlines ----

/// An earlier alarm will do: it looks at everything, and sets the next one.
void Scheduler::wake_at(base::TimePoint when) {
  if (!alarms_.empty() && *alarms_.begin() <= when)
    return;
  alarms_.insert(when);
  tell_after(self_, std::max(base::Duration::zero(), base::Duration(when - now())), self_, Wake{});
}

base::Duration Scheduler::draft_patience() const {
  const base::Duration step{parts_.telemetry->draft_step_ns.load(std::memory_order_relaxed)};
  int longest = 0;
  for (const auto& [id, s] : sequences_)
    longest = std::max(longest, s.window);
  return std::clamp<base::Duration>(step * (longest + limits::draft_patience_steps),
                                    limits::draft_patience_min, limits::draft_patience_max);
}

void Scheduler::distrust_draft() {
  distrust_pause_ = std::clamp<base::Duration>(distrust_pause_ * 2, limits::distrust_pause_min,
                                               limits::distrust_pause_max);
  distrust_until_ = now() + distrust_pause_;
}

void Scheduler::check_deadlines() {
  alarms_.erase(alarms_.begin(), alarms_.upper_bound(now()));
  if (wait_ && now() >= wait_->since + draft_patience()) {
    distrust_draft();
    stop_waiting();
    for (auto& [id, s] : sequences_) // what it left undone is not waited for again
      if (s.chain && !s.in_flight && !s.chain->settled(s.length() + s.window))
        retire_chain(s);
  }
  if (flight_ && flight_->overdue && now() >= *flight_->overdue)
    abandon_target();
  pages_short_ = false;
  if (wait_)
    wake_at(wait_->since + draft_patience());
  else if (flight_ && flight_->overdue)
    wake_at(*flight_->overdue);
  pump();
}

/// From now on the batch under way is waited for.
void Scheduler::begin_patience(int rows) {
  if (const auto patience = step_times_.patience(rows, flight_->prefill)) {
    flight_->overdue = now() + *patience + 2 * flight_->batch.patience;
    wake_at(*flight_->overdue);
  }
}

void Scheduler::give_up_flight() {
  flight_.reset();
  armed_.reset();
  early_.reset();
}

/// Its lane stands still. Its successor has another one; what the step in flight may touch is kept
/// from everybody until it has retired. The sequences are rebuilt when the successor is announced.
void Scheduler::abandon_target() {
  add(parts_.telemetry->stalls, 1);
  give_up_flight();
  if (wiring_.target)
    fail(caf::actor_cast<caf::actor_addr>(wiring_.target));
  wiring_.target = nullptr;
}

/// A draft that is late is done without, but only one that stands still has to go.
void Scheduler::watch_draft() {
  bool owes = false;
  std::uint64_t written = 0;
  for (const auto& [id, s] : sequences_) {
    if (s.residence)
      written += std::uint64_t(s.residence->cached.load(std::memory_order_relaxed));
    if (!s.chain)
      continue;
    owes |= !s.chain->settled(s.length() + s.window);
    written += std::uint64_t(s.chain->drawn() - s.chain->start());
  }
  const base::Duration step{parts_.telemetry->draft_step_ns.load(std::memory_order_relaxed)};
  if (!wiring_.draft || !draft_watch_.stands_still(owes, written, step, now()))
    return;
  add(parts_.telemetry->stalls, 1);
  fail(caf::actor_cast<caf::actor_addr>(wiring_.draft));
}

} // namespace paceline::actors
