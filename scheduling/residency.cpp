#include "scheduling/residency.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <utility>

namespace paceline::scheduling {
namespace {

/// Says why no pages came. Pages that a step does not let go of are nobody's, however many there
/// are.
Error stayed_full(const base::Telemetry& telemetry) {
  const auto held = telemetry.kv_pages_quarantined.load(std::memory_order_relaxed);
  if (held == 0)
    return {ErrorCode::out_of_memory, "the KV cache stayed full",
            "raise EngineOptions::kv_memory_bytes or lower EngineOptions::max_num_seqs"};
  return {ErrorCode::out_of_memory,
          fmt::format("the KV cache stayed full: steps that have not ended hold {} pages", held),
          "see the engine's log for what stands still"};
}

} // namespace

Residency::Residency(const SchedulerConfig& config, Sequences& sequences, EpochMint& epochs,
                     Drafting& drafting, Alarms& alarms, QueueOrder& order)
    : config_(config), sequences_(sequences), epochs_(epochs), drafting_(drafting), alarms_(alarms),
      order_(order) {}

// ---- admission ----

void Residency::admit_next(Turn& turn) {
  int taken = 0;
  bool reserving = false;
  bool decoding = false;
  bool stuck = false; // pages that come back are for a running sequence, so nobody is admitted
  for (const auto& [id, s] : sequences_) {
    stuck |= s.running() && s.lacks_pages;
    reserving |= s.phase == Sequence::Phase::reserving;
    taken += s.phase != Sequence::Phase::waiting;
    decoding |= s.running() && s.output() > 0;
  }
  config_.telemetry->running.store(taken, std::memory_order_relaxed);
  config_.telemetry->waiting.store(int(sequences_.count()) - taken, std::memory_order_relaxed);
  if (reserving || stuck || pages_short_ || taken >= config_.max_num_seqs)
    return;
  if (config_.batching == Batching::request && decoding) // its batch runs to its end
    return;
  if (Sequence* next = order_.next(sequences_))
    reserve(turn, *next);
}

void Residency::reserve(Turn& turn, Sequence& s) {
  sequences_.leave_queue(s);
  s.phase = Sequence::Phase::reserving;
  s.epoch = epochs_.next();
  const int room = std::min(config_.max_model_len, s.length() + std::max(s.budget(), 0));
  // A prompt that is scored needs every row, so nothing of it may come from the prefix cache.
  KvReserve wanted{s.spec->id, s.log, s.scores() ? 0 : s.length(),
                   std::min(room, s.length() + limits::tokens_ahead)};
  wanted.path = s.path;
  wanted.salt = s.spec->cache_salt;
  if (config_.attention_window > 0) // the rest follows as the prompt is read, not all at a time
    wanted.windowed_ahead = config_.prefill_chunk + limits::tokens_ahead;
  turn.act(AskReserve{std::move(wanted), s.epoch});
}

bool Residency::reserved(Turn& turn, SequenceId id, Epoch asked, const KvGrant& grant) {
  Sequence* const found = sequences_.find(id);
  if (!found || found->phase != Sequence::Phase::reserving || found->epoch != asked)
    return false; // it was evicted or ended meanwhile, and its pages released behind this grant
  Sequence& s = *found;
  if (grant.granted) {
    begin(turn, s, grant);
  } else {
    s.phase = Sequence::Phase::waiting;
    if (s.started)
      end_forks(turn);
    ask_again(turn, s);
  }
  return grant.granted;
}

void Residency::begin(Turn& turn, Sequence& s, const KvGrant& grant) {
  s.phase = Sequence::Phase::running;
  s.lacks_pages.reset();
  s.refusals = 0;
  s.pages = grant.tables;
  s.cached = grant.cached[target_pool];
  if (!s.started) {
    s.started = turn.now;
    order_.charge(s, s.length() - s.cached);
  }
  s.cached_tokens = std::max(s.cached_tokens, s.cached);
  s.prompt_logprobs.clear();
  if (s.scores()) // nothing precedes the first
    s.prompt_logprobs.push_back({.token = s.log->first(1).front(), .logprob = 0, .top = {}});
  s.residency = std::make_shared<speculation::CacheResidency>();
  s.residency->epoch = epochs_.next();
  if (config_.draft_pool)
    s.residency->cached_at_grant = grant.cached[*config_.draft_pool];
  if (drafting_.planning.speculates(s,
                                    turn.now)) // the draft reads the prompt while the target does
    turn.act(speculation::Frontiers{{drafting_.planning.reading(s)}});
}

/// Asks again after a refusal. A request that can never fit was refused at submission, so pages are
/// only late in coming back, from sequences that run or from steps that have not retired.
void Residency::ask_again(Turn& turn, Sequence& s) {
  pages_short_ = true;
  if (s.started && !s.lacks_pages)
    s.lacks_pages = turn.now;
  if (runs_alone(s) && ++s.refusals > limits::reservation_tries_max)
    fail(turn, s.spec->id, stayed_full(*config_.telemetry));
  else
    alarms_.wake_at(turn, turn.now + limits::reservation_pause);
}

/// Says whether nobody else has pages that may come back.
bool Residency::runs_alone(const Sequence& s) const {
  return std::ranges::none_of(
      sequences_, [&](const auto& other) { return &other.second != &s && other.second.running(); });
}

// ---- growth ----

void Residency::ensure_pages(Turn& turn, Sequence& s) {
  const speculation::Plan plan = drafting_.planning.plan_for(s);
  int ahead = std::max(plan.lookahead, plan.window + 1);
  if (config_.stages > 1) // as much again behind the last window in flight
    ahead *= 2;
  const int end =
      std::min(s.room(config_.max_model_len),
               s.length() + s.bound() + std::max(plan.window, plan.form_window) + 1 + ahead);
  int windowed_end = end;
  if (config_.attention_window > 0) // a prompt's pages come and go: those of the chunks under way,
    windowed_end = std::min(        // and of the next one
        end, s.cached + (config_.stages + 1) * config_.prefill_chunk + end - s.length());
  if (s.target_pages().capacity() < windowed_end || holds_unseen_pages(s))
    grow(turn, s, end, windowed_end);
}

/// Says whether the sequence holds enough pages behind its attention window to be worth a message.
bool Residency::holds_unseen_pages(const Sequence& s) const {
  if (config_.attention_window == 0)
    return false;
  const int unseen = s.cached - config_.attention_window - limits::tokens_ahead;
  const int page = unseen / s.target_pages().page_tokens - 1;
  return page >= 0 && s.target_pages().pages[std::size_t(page)];
}

void Residency::grow(Turn& turn, Sequence& s, int capacity, int windowed_capacity) {
  if (s.growing)
    return;
  if (turn.now < s.grows_at) // woken for something else
    return alarms_.wake_at(turn, s.grows_at);
  s.growing = true;
  if (config_.attention_window > 0) // pages that are let go of may still serve others
    publish(turn, s);
  const int room = s.room(config_.max_model_len);
  const auto with_more = [room](int tokens) {
    return std::min(tokens + limits::tokens_ahead, std::max(room, tokens));
  };
  turn.act(AskGrow{{s.spec->id, with_more(capacity), with_more(windowed_capacity), s.cached},
                   s.residency->epoch});
}

bool Residency::grown(Turn& turn, SequenceId id, Epoch residency, const KvGrant& grant) {
  Sequence* const found = sequences_.find(id);
  if (!found || !found->running() || found->residency->epoch != residency)
    return false;
  Sequence& s = *found;
  s.growing = false;
  if (grant.granted) {
    s.lacks_pages.reset();
    s.refusals = 0;
    s.pages = grant.tables;
  } else if (s.target_pages().capacity() < s.cached + std::max(s.rows_at_least(), 2)) {
    // It cannot take a single step more: what is speculative gives way first, then the youngest.
    s.grows_at = turn.now + limits::reservation_pause;
    if (end_forks(turn) || forks_may_hold_pages(s, turn.now))
      ask_again(turn, s);
    else
      preempt_for(turn, s);
  }
  return true;
}

/// Ends forks, which hold pages of the draft. Returns false when no chain that goes on has any;
/// forks of chains that are over may be there until the draft's lane has heard of it.
bool Residency::end_forks(Turn& turn) {
  const bool any = drafting_.end_forks();
  if (any || (config_.draft_pool && drafting_.health.draft() != 0))
    turn.act(Forget{}); // the draft's lane lets go of their pages
  return any;
}

/// Says whether forks may hold pages, those of ended chains included, until the draft's lane has
/// heard of it.
bool Residency::forks_may_hold_pages(const Sequence& s, base::TimePoint now) const {
  return config_.draft_pool &&
         now < s.lacks_pages.value_or(now) + limits::passes_to_let_go * drafting_.waits.step();
}

/// Takes the pages of the sequence that comes last in order.
void Residency::preempt_for(Turn& turn, Sequence& needy) {
  Sequence* last = nullptr;
  int running = 0;
  for (auto& [id, s] : sequences_) {
    if (!s.running())
      continue;
    ++running;
    if (!last || QueueOrder::before(*last, s))
      last = &s;
  }
  if (running > 1) {
    base::add(config_.telemetry->preemptions, 1);
    evict(turn, *last, true);
  }
  ask_again(turn, needy); // before the one that was evicted
}

// ---- sharing and release ----

/// Returns how many leading tokens of the log its pages have right.
PerPool<int> Residency::valid_of(const Sequence& s) const {
  PerPool<int> valid(s.pages.size());
  if (valid.empty())
    return valid;
  valid[target_pool] = s.cached;
  if (config_.draft_pool)
    valid[*config_.draft_pool] = std::min(s.residency->cached.load(), s.length());
  return valid;
}

void Residency::publish(Turn& turn, const Sequence& s) {
  turn.act(KvPublish{s.spec->id, s.log, valid_of(s), s.path, s.spec->cache_salt});
}

void Residency::evict(Turn& turn, Sequence& s, bool valid) {
  drafting_.retire_chain(s);
  KvRelease release{s.spec->id, s.log, valid ? valid_of(s) : PerPool<int>(s.pages.size()), s.path,
                    s.spec->cache_salt};
  if (s.residency)
    s.residency->over.store(true, std::memory_order_release);
  if (drafting_.health.draft() != 0 && s.residency)
    turn.act(Forget{});
  turn.act(std::move(release));
  s.feeds_again = false;
  s.pages.clear();
  s.residency = nullptr;
  s.cached = 0;
  s.chunks.clear();
  s.growing = s.published = s.in_flight = false;
  s.epoch = epochs_.next(); // a verdict under way is stale now
  s.phase = Sequence::Phase::waiting;
  retry();
}

void Residency::end(Turn& turn, SequenceId id) {
  Sequence* const s = sequences_.find(id);
  if (!s)
    return;
  if (s->phase != Sequence::Phase::waiting)
    evict(turn, *s, true);
  retry();
  order_.leave(*s);
  sequences_.erase(id);
}

void Residency::fail(Turn& turn, SequenceId id, Error why) {
  turn.act(Failed{id, std::move(why)});
  end(turn, id);
}

} // namespace paceline::scheduling
