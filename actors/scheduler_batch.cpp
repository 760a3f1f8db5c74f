// What runs next: waiting for windows, and the making of a batch.
#include "actors/limits.hpp"
#include "actors/scheduler.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::actors {

using namespace messages;

void Scheduler::pump() {
  admit_waiting();
  if (flight_ || wait_)
    return;
  if (!wait_for_windows())
    send_batch();
}

void Scheduler::admit_waiting() {
  int taken = 0;
  bool reserving = false;
  Sequence* next = nullptr; // first come, first served: none overtakes one that needs more pages
  for (auto& [id, s] : sequences_) {
    reserving |= s.phase == Sequence::Phase::reserving;
    if (s.phase != Sequence::Phase::waiting)
      ++taken;
    else if (!next || s.arrival < next->arrival)
      next = &s;
  }
  parts_.telemetry->running.store(taken, std::memory_order_relaxed);
  parts_.telemetry->waiting.store(int(sequences_.size()) - taken, std::memory_order_relaxed);
  if (next && !reserving && !pages_short_ && taken < parts_.max_num_seqs && wiring_.kv_cache)
    reserve(*next);
}

// ---- speculation of one sequence ----

bool Scheduler::speculates(const Sequence& s) const {
  return parts_.has_draft && wiring_.draft && s.spec->max_tokens > 0 && s.throttle.speculate() &&
         plan_for(s).mode != SpeculationMode::off;
}

/// The engine's plan, bent by what the request asked for.
sampling::Plan Scheduler::plan_for(const Sequence& s) const {
  sampling::Plan plan = policy_.plan();
  if (s.spec->speculation != SpeculationMode::automatic)
    plan.mode = s.spec->speculation;
  if (plan.mode == SpeculationMode::off)
    return {};
  if (s.spec->window > 0)
    plan.window = s.spec->window;
  plan.window = std::max(plan.window, 1);
  const bool ahead =
      plan.mode == SpeculationMode::overlap && parts_.policy.lookahead != Lookahead::none;
  plan.lookahead = ahead ? plan.window + 1 : 0;
  if (!ahead)
    plan.fork_rows = 0;
  return plan;
}

// ---- waiting ----

/// Waits for a window that is not all there yet when expected tokens per second gain by it, and
/// always where tokens have to repeat (`sync` with a fixed window). Looks at counts of bound
/// positions only: a token's value never decides whether it is judged.
bool Scheduler::should_wait(const Sequence& s) const {
  if (!s.chain || s.window == 0 || s.in_flight || now() < distrust_until_ || s.chain->closed() ||
      s.chain->settled(s.length() + s.window))
    return false;
  const sampling::Plan plan = plan_for(s);
  const bool fixed = s.spec->window > 0 || parts_.policy.window.has_value();
  if (plan.mode == SpeculationMode::sync && fixed)
    return true;
  return s.bound() < s.window && policy_.worth_waiting(s.bound(), s.window);
}

bool Scheduler::wait_for_windows() {
  std::vector<Sequence*> late;
  for (auto& [id, s] : sequences_)
    if (s.phase == Sequence::Phase::running && should_wait(s))
      late.push_back(&s);
  if (late.empty())
    return false;
  wait_ = Wait{++tickets_, now()};
  const auto me = caf::actor_cast<SchedulerActor>(self_);
  const auto gate = std::make_shared<Gate>(
      int(late.size()), [me, ticket = tickets_] { tell(me, WindowsReady{ticket}); });
  for (Sequence* s : late)
    s->chain->notify_at(s->length() + s->window, gate);
  wake_at(wait_->since + draft_patience());
  return true;
}

void Scheduler::stop_waiting() {
  wait_.reset();
}

// ---- the batch ----

/// What is left of a step for the sequences that come next.
struct Scheduler::Allowance {
  int prefill_rows = 0;
  int logit_rows = 0;
  messages::Forking forking; ///< Each one's, but for the window.
};

void Scheduler::send_batch() {
  if (!wiring_.target)
    return;
  Flight flight;
  flight.batch.id = ++batches_;
  flight.batch.wiring = wiring_.version;
  flight.draft = wiring_.draft;
  flight.batch.patience = draft_patience();
  flight.mode = policy_.plan().mode;
  int rows = 0; // of committed tokens
  std::vector<Sequence*> order;
  for (auto& [id, s] : sequences_)
    if (s.phase == Sequence::Phase::running && !s.in_flight)
      order.push_back(&s);
  // Running streams first, so that a long prompt never takes their place in the step.
  std::sort(order.begin(), order.end(), [](const Sequence* a, const Sequence* b) {
    return std::pair(!a->decoding(), a->arrival) < std::pair(!b->decoding(), b->arrival);
  });
  Allowance left{parts_.prefill_chunk, parts_.logit_rows, forking(order.size())};
  for (Sequence* s : order) {
    auto entry = entry_for(*s, left);
    if (!entry)
      continue;
    s->in_flight = true;
    s->epoch = entry->epoch;
    if (entry->chain || entry->next_chain)
      flight.mode = plan_for(*s).mode;
    rows += entry->length - entry->cached;
    flight.batch.entries.push_back(std::move(*entry));
  }
  if (flight.batch.entries.empty()) {
    last_verdict_.reset(); // idle: the next round begins with its batch
    return;
  }
  flight.sent = now();
  flight.prefill = rows > int(flight.batch.entries.size());
  flight_ = std::move(flight);
  tell(self_, wiring_.target, flight_->batch);
  begin_patience(rows);
  arm();
  for (Sequence* s : order)
    if (s->in_flight)
      ensure_pages(*s);
}

std::optional<BatchEntry> Scheduler::entry_for(Sequence& s, Allowance& left) {
  const int length = s.length();
  const int missing = length - s.cached;
  int count = std::min(
      {missing, s.decoding() ? missing : left.prefill_rows, s.target_pages->capacity() - s.cached});
  if (s.reads_fast())
    count = std::min(count, s.path.fast - s.cached) / s.path.chunk * s.path.chunk;
  if (s.scores())
    count = std::min(count, left.logit_rows);
  if (count <= 0 || left.logit_rows < 1) {
    if (s.target_pages->capacity() < s.cached + s.rows_at_least())
      ensure_pages(s);
    return std::nullopt;
  }
  BatchEntry entry;
  entry.fast = s.reads_fast();
  entry.spec = s.spec;
  entry.epoch = mint();
  entry.log = s.log;
  entry.cached = s.cached;
  entry.length = s.cached + count;
  entry.judges = entry.length == length && s.spec->max_tokens > 0;
  entry.scores = s.scores();
  entry.pages = s.target_pages;
  if (!s.decoding())
    left.prefill_rows -= count;
  left.logit_rows -= entry.scores ? count : int(entry.judges);
  if (entry.judges) {
    // The verdict adds a token of its own, and every token fed needs a slot.
    entry.window = std::max(
        0, std::min({s.bound(), s.budget() - 1, left.logit_rows,
                     s.target_pages->capacity() - length, parts_.max_model_len - length - 1}));
    left.logit_rows -= entry.window;
    entry.whole = entry.window == s.window;
    entry.chain = s.chain;
    plan_next(s, left.forking, entry);
  }
  return entry;
}

/// What the draft does after this step's verdict, decided before it is known. Whatever is bound is
/// judged, in every mode: what was drawn under another plan may not be dropped for a new one, which
/// may have come from how long its drawing took.
void Scheduler::plan_next(Sequence& s, const Forking& forking, BatchEntry& entry) {
  const int budget = s.spec->prompt_tokens + s.spec->max_tokens - entry.length;
  entry.judge_lookahead = s.chain && entry.window < budget - 1;
  const sampling::Plan plan = plan_for(s);
  const int window = std::min(plan.window, budget - 2);
  if (!speculates(s) || window <= 0)
    return;
  entry.next_window = window;
  entry.next_lookahead = plan.lookahead;
  entry.next_epoch = mint();
  entry.next_chain = std::make_shared<Chain>(s.spec->id);
  if (plan.fork_rows > 0) {
    entry.next_forking = forking;
    entry.next_forking.window = plan.window;
  }
  entry.draft_pages = s.draft_pages;
  entry.residence = s.residence;
}

// ---- the armed batch ----

/// Sends the batch behind the one under way, as it is to be if all of that is accepted. Only with
/// the very same sequences: a step of others' would keep those waiting that had to be left out.
void Scheduler::arm() {
  if (!wiring_.target || others_want_rows())
    return;
  Flight next;
  Allowance left{0, parts_.logit_rows, forking(flight_->batch.entries.size())};
  double chance = 1;
  for (const BatchEntry& before : flight_->batch.entries) {
    chance *= std::pow(policy_.acceptance(), before.window + 1);
    auto entry = chance < limits::armed_chance_min ? std::nullopt : entry_behind(before, left);
    if (!entry)
      return;
    next.batch.entries.push_back(std::move(*entry));
  }
  next.batch.id = ++batches_;
  next.batch.after = flight_->batch.id;
  next.batch.wiring = wiring_.version;
  next.batch.patience = draft_patience();
  next.draft = wiring_.draft;
  next.mode = flight_->mode;
  armed_ = std::move(next);
  tell(self_, wiring_.target, armed_->batch);
}

/// Somebody has, or is about to have, something to do in the next step.
bool Scheduler::others_want_rows() const {
  return std::ranges::any_of(sequences_, [](const auto& entry) {
    const Sequence& s = entry.second;
    return !s.in_flight && s.phase != Sequence::Phase::waiting;
  });
}

/// None where a full hit is not to be had, or would leave no room for a whole window.
std::optional<BatchEntry> Scheduler::entry_behind(const BatchEntry& before, Allowance& left) {
  Sequence* s = find(before.spec->id);
  if (!s || s->epoch != before.epoch || s->chain != before.chain || s->length() != before.length ||
      !before.whole || !before.judge_lookahead || before.next_lookahead == 0)
    return std::nullopt;
  BatchEntry entry;
  entry.spec = s->spec;
  entry.epoch = mint();
  entry.log = s->log;
  entry.assumed = before.window + 1;
  entry.length = before.length + entry.assumed;
  entry.cached = entry.length - 1;
  entry.pages = s->target_pages;
  entry.chain = s->chain;
  entry.window = before.next_window;
  entry.whole = true;
  plan_next(*s, left.forking, entry);
  left.logit_rows -= entry.window + 1;
  const int end = entry.length + entry.window;
  const int room = std::min(parts_.max_model_len, s->spec->prompt_tokens + s->spec->max_tokens);
  const int drafted = end + 1 + entry.next_window + entry.next_lookahead; // after another hit
  const bool fits = left.logit_rows >= 0 && end < room && end <= s->target_pages->capacity() &&
                    (!s->draft_pages ||
                     std::min(drafted, room) <= s->draft_pages->capacity()); // a caller's has none
  if (!fits || !entry.next_chain || !entry.judge_lookahead)
    return std::nullopt;
  return entry;
}

/// The forks that a pass advances are shared by all that run.
Forking Scheduler::forking(std::size_t sequences) const {
  const int rows = policy_.plan().fork_rows;
  if (rows == 0 || sequences == 0)
    return {};
  return {rows / int(sequences), 0, policy_.odds()};
}

/// Two windows ahead of the frontier, so that no step ever waits for the cache manager.
void Scheduler::ensure_pages(Sequence& s) {
  const int room = std::min(parts_.max_model_len, s.spec->prompt_tokens + s.spec->max_tokens);
  const int window = plan_for(s).window;
  const int end = std::min(room, s.length() + s.bound() + 2 * (window + 1));
  PerPool<int> wanted{end, end};
  if (parts_.attention_window > 0) // a prompt's pages come and go: this step's and the next one's
    wanted.target = std::min(end, s.cached + 2 * parts_.prefill_chunk + end - s.length());
  if (s.target_pages->capacity() < wanted.target || holds_unseen_pages(s))
    grow(s, wanted);
}

/// Enough of them to be worth a message.
bool Scheduler::holds_unseen_pages(const Sequence& s) const {
  if (parts_.attention_window == 0)
    return false;
  const int unseen = s.cached - parts_.attention_window - limits::tokens_ahead;
  const int page = unseen / s.target_pages->page_tokens - 1;
  return page >= 0 && s.target_pages->pages[std::size_t(page)];
}

} // namespace paceline::actors
