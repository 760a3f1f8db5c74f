#include "scheduling/drafting.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace paceline::scheduling {

using speculation::Plan;

Drafting::Drafting(const SchedulerConfig& config, Sequences& sequences, EpochMint& epochs)
    : config_(config), sequences_(sequences), epochs_(epochs), policy_(config.policy),
      enabled_(config.has_draft), watch_(config.faults.stall_patience) {}

// ---- what is drafted ----

bool Drafting::speculates(const Sequence& s, base::TimePoint now) const {
  return enabled_ && draft_ != 0 && back_off_.drafts(now) && s.spec->max_tokens > 0 &&
         s.throttle.speculate() && plan_for(s).mode != SpeculationMode::off;
}

Plan Drafting::plan_for(const Sequence& s) const {
  Plan plan = policy_.plan();
  if (s.spec->speculation != SpeculationMode::automatic)
    plan.mode = s.spec->speculation;
  if (plan.mode == SpeculationMode::off)
    return {};
  if (s.spec->window > 0)
    plan.window = s.spec->window;
  plan.window = std::max(plan.window, 1);
  const bool ahead =
      plan.mode == SpeculationMode::overlap && config_.policy.lookahead != Lookahead::none;
  plan.lookahead = ahead ? plan.window + 1 : 0;
  if (!ahead)
    plan.fork_rows = 0;
  return plan;
}

Forking Drafting::share_of_forks(std::size_t sequences) const {
  const int rows = policy_.plan().fork_rows;
  if (rows == 0 || sequences == 0)
    return {};
  return {rows / int(sequences), 0, policy_.odds()};
}

NextDraft Drafting::plan_next(const Sequence& s, int length, const Forking& forking,
                              base::TimePoint now) {
  const int budget = s.spec->prompt_tokens + s.spec->max_tokens - length;
  const Plan plan = plan_for(s);
  NextDraft next;
  next.window = std::min(plan.window, budget - 2);
  if (!speculates(s, now) || next.window <= 0)
    return {};
  next.lookahead = plan.lookahead;
  next.epoch = epochs_.next();
  next.chain = std::make_shared<Chain>(s.spec->id);
  if (plan.fork_rows > 0) {
    next.forking = forking;
    next.forking.window = plan.window;
  }
  next.reads_features = config_.draft_reads_features;
  next.pages = pages_of(s);
  next.residency = s.residency;
  return next;
}

gpu::PageTableRef Drafting::pages_of(const Sequence& s) const {
  return config_.draft_pool ? s.pages[*config_.draft_pool] : nullptr;
}

speculation::Frontier Drafting::reading(const Sequence& s) {
  speculation::TargetFeatures features;
  if (config_.draft_reads_features)
    features = {s.target_pages(), s.cached};
  const auto chain = std::make_shared<Chain>(s.spec->id);
  chain->begin(s.length(), s.length(), s.length());
  return {.spec = s.spec,
          .epoch = epochs_.next(),
          .log = s.log,
          .log_length = s.length(),
          .tokens = {},
          .chain = chain,
          .pages = pages_of(s),
          .residency = s.residency,
          .forking = {},
          .features = std::move(features)};
}

// ---- waiting for windows ----

bool Drafting::should_wait(const Sequence& s, base::TimePoint now) const {
  if (!s.chain || s.window == 0 || s.in_flight || !back_off_.waits(now) || s.chain->closed() ||
      s.late || s.window_settled())
    return false;
  const bool fixed = s.spec->window > 0 || config_.policy.window.has_value();
  if (plan_for(s).mode == SpeculationMode::sync && fixed)
    return true;
  return s.bound() < s.window && policy_.worth_waiting(s.bound(), s.window);
}

bool Drafting::wait_for_windows(Turn& turn) {
  AwaitWindows late;
  for (const auto& [id, s] : sequences_)
    if (s.running() && should_wait(s, turn.now))
      late.windows.emplace_back(s.chain, s.length() + s.window);
  if (late.windows.empty())
    return false;
  wait_ = Wait{++tickets_, turn.now};
  late.ticket = tickets_;
  turn.act(std::move(late));
  return true;
}

void Drafting::windows_ready(std::uint64_t ticket) {
  if (!wait_ || wait_->ticket != ticket)
    return;
  back_off_.on_time();
  stop_waiting();
}

std::optional<base::TimePoint> Drafting::wait_ends() const {
  return wait_ ? std::optional(wait_->since + timeout()) : std::nullopt;
}

void Drafting::end_late_wait(base::TimePoint now) {
  if (!wait_ || now < *wait_ends())
    return;
  back_off_.late(now);
  stop_waiting();
  for (auto& [id, s] : sequences_)
    if (s.chain && !s.in_flight && !s.window_settled())
      s.late = {now, s.chain->bound()};
}

void Drafting::was_late(Sequence& s, base::TimePoint now) {
  back_off_.late(now);
  s.late = {now, s.chain->bound()};
}

void Drafting::release(Sequence& s, base::TimePoint now) {
  if (s.late && now > s.late->since)
    back_off_.cost(now - s.late->since, now);
  s.late.reset();
}

bool Drafting::await_held_up(Turn& turn) {
  bool any = false;
  for (auto& [id, s] : sequences_) {
    if (!s.running() || s.in_flight || !s.held_up())
      continue;
    any = true;
    if (!std::exchange(s.late->awaited, true))
      turn.act(AwaitWindows{++tickets_, {{s.chain, s.late->until}}});
  }
  return any;
}

base::Duration Drafting::step() const {
  base::Duration longest = step_;
  for (const auto& [id, s] : sequences_)
    if (s.chain)
      longest = std::max<base::Duration>(longest, s.chain->pace().step);
  return longest;
}

base::Duration Drafting::timeout() const {
  const base::Duration step = this->step();
  if (step == step.zero())
    return limits::first_draft_timeout;
  int longest = 0;
  for (const auto& [id, s] : sequences_)
    longest = std::max(longest, s.window);
  return std::clamp<base::Duration>(step * (longest + limits::draft_timeout_steps),
                                    limits::draft_timeout_min, limits::draft_timeout_max);
}

// ---- what becomes of it ----

void Drafting::retire_chain(Sequence& s, const Chain* successor) {
  if (!s.chain)
    return;
  stop_waiting(); // nobody will finish it
  s.chain->close();
  if (const auto step = s.chain->pace().step; step > step.zero())
    step_ = step;
  s.stats.drafted += std::uint64_t(s.chain->drawn() - s.chain->start());
  const std::uint64_t forked = s.chain->drop_forks(std::numeric_limits<int>::max(), successor);
  s.stats.drafted += forked;
  s.stats.forked += forked;
  s.chain = nullptr;
  s.window = 0;
  s.late.reset();
}

bool Drafting::end_forks() {
  bool any = false;
  for (const auto& [id, s] : sequences_)
    any |= s.chain && s.chain->end_forks();
  return any;
}

void Drafting::retire_all_chains(base::TimePoint now) {
  for (auto& [id, s] : sequences_) {
    release(s, now);
    retire_chain(s);
  }
}

void Drafting::disable(Turn& turn) {
  enabled_ = false;
  turn.act(DisableDraft{}); // so that nobody uses it again
}

void Drafting::watch(Turn& turn) {
  bool owes = false;
  std::uint64_t written = 0;
  for (const auto& [id, s] : sequences_) {
    if (s.residency)
      written += std::uint64_t(s.residency->cached.load(std::memory_order_relaxed));
    if (!s.chain)
      continue;
    owes |= !s.window_settled() || s.held_up();
    written += std::uint64_t(s.chain->drawn() - s.chain->start());
  }
  if (draft_ == 0 || !watch_.stands_still(owes, written, step(), turn.now))
    return;
  base::add(config_.telemetry->stalls, 1);
  turn.act(EndDraft{});
}

void Drafting::observe(speculation::RoundObservation round) {
  if (round.window == 0 && round.mode != SpeculationMode::off)
    round.mode = SpeculationMode::off; // nothing was there to judge
  policy_.observe(round);
}

} // namespace paceline::scheduling
