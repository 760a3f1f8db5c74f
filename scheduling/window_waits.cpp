#include "scheduling/window_waits.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace paceline::scheduling {

/// Says whether the sequence's window is not all there, and may yet be.
bool WindowWaits::is_awaited(const Sequence& s, base::TimePoint now) const {
  return s.running() && s.chain && s.window > 0 && !s.in_flight && !s.chain->closed() &&
         !s.window_settled() && planning_.state(s, now) == DraftState::healthy;
}

/// Says whether tokens have to repeat, or the mode was chosen at that price.
bool WindowWaits::waits_for_all(const Sequence& s) const {
  return planning_.repeats(s) ||
         (planning_.plan_for(s).mode == SpeculationMode::sync && s.bound() < s.window_now());
}

speculation::OverlappedSequence WindowWaits::overlapped(const Sequence& s) const {
  const double a = planning_.acceptance(s);
  return {a, planning_.policy().hits(a, s.window)};
}

WindowWaits::StepNow WindowWaits::step_now() const {
  StepNow now;
  for (const auto& [id, s] : sequences_) {
    if (!s.running() || !s.may_step() || s.held_up())
      continue;
    const int fed = std::min(s.length() - s.fed(), config_.prefill_chunk);
    ++now.sequences;
    now.context += s.fed();
    now.rows += fed + s.bound();
    now.tokens += fed - 1 + overlapped(s).rate();
  }
  return now;
}

/// Returns how many tokens of the draft are worth waiting for. Late sequences gain a token with
/// each pass, or several, and everybody waits for it: the pass is worth what they gain less what
/// all bring in that time. A sequence that goes without its window now drafts the next one under
/// the step.
int WindowWaits::tokens_worth_waiting(std::span<const Sequence* const> late) const {
  const StepNow now = step_now();
  int missing = 0;
  std::vector<speculation::OverlappedSequence> gaining;
  const auto drafted = [](const Sequence& s) { return std::min(s.bound(), s.window); };
  for (const Sequence* s : late) {
    missing = std::max(missing, s->window - drafted(*s));
    gaining.push_back(overlapped(*s));
  }
  const double step = planning_.step_seconds(now.rows, now.context);
  if (step <= 0)
    return missing; // what it costs is not known
  const double per_second = now.tokens / step;
  const double pass = planning_.draft_seconds(now.rows);
  double best = 0;
  int tokens = 0;
  for (int more = 0, waited = 1; waited <= missing; ++waited) {
    double gain = 0;
    for (std::size_t i = 0; i < late.size(); ++i) {
      const int bound = drafted(*late[i]);
      gain += gaining[i].value(std::min(bound + waited, late[i]->window)) - gaining[i].value(bound);
      more += bound + waited <= late[i]->window;
    }
    const double longer = planning_.step_seconds(now.rows + more, now.context) - step;
    const double drafting = config_.policy.passes(waited) * pass;
    if (const double worth = gain - per_second * (drafting + longer); worth > best) {
      best = worth;
      tokens = waited;
    }
  }
  return tokens;
}

bool WindowWaits::any_ready(base::TimePoint now) const {
  return std::ranges::any_of(sequences_, [&](const auto& entry) {
    const Sequence& s = entry.second;
    return s.running() && s.may_step() && !s.held_up() && !is_awaited(s, now);
  });
}

bool WindowWaits::begin(Turn& turn) {
  AwaitWindows late;
  std::vector<const Sequence*> if_it_pays;
  for (const auto& [id, s] : sequences_) {
    if (!is_awaited(s, turn.now))
      continue;
    if (waits_for_all(s))
      late.windows.emplace_back(s.chain, s.length() + s.window_now());
    else if (s.bound() < s.window)
      if_it_pays.push_back(&s);
  }
  if (const int tokens = if_it_pays.empty() ? 0 : tokens_worth_waiting(if_it_pays))
    for (const Sequence* s : if_it_pays)
      late.windows.emplace_back(s->chain, s->length() + std::min(s->window, s->bound() + tokens));
  if (late.windows.empty())
    return false;
  wait_ = Wait{++tickets_, turn.now};
  late.ticket = tickets_;
  turn.act(std::move(late));
  return true;
}

void WindowWaits::windows_ready(std::uint64_t ticket) {
  if (!wait_ || wait_->ticket != ticket)
    return;
  health_.was_on_time();
  stop();
}

std::optional<base::TimePoint> WindowWaits::ends() const {
  return wait_ ? std::optional(wait_->since + timeout()) : std::nullopt;
}

void WindowWaits::end_late(base::TimePoint now) {
  if (!wait_ || now < *ends())
    return;
  note_late(now);
  stop();
  for (auto& [id, s] : sequences_)
    if (s.chain && !s.in_flight && !s.window_settled())
      s.health.was_late(*s.chain, now);
}

void WindowWaits::was_late(Sequence& s, base::TimePoint now) {
  note_late(now);
  s.health.was_late(*s.chain, now);
}

void WindowWaits::note_late(base::TimePoint now) {
  health_.was_late(now);
  base::add(config_.telemetry->draft_late, 1);
}

void WindowWaits::release(Sequence& s, base::TimePoint now) {
  const auto since = s.health.go_on();
  if (!since)
    return;
  health_.held_up(*since, now);
  base::add(config_.telemetry->draft_pauses, 1);
}

bool WindowWaits::await_held_up(Turn& turn) {
  bool any = false;
  for (auto& [id, s] : sequences_) {
    if (!s.running() || s.in_flight || !s.held_up())
      continue;
    any = true;
    if (const auto until = s.health.awaits())
      turn.act(AwaitWindows{++tickets_, {{s.chain, *until}}});
  }
  return any;
}

base::Duration WindowWaits::step() const {
  base::Duration longest = step_;
  for (const auto& [id, s] : sequences_)
    if (s.chain)
      longest = std::max<base::Duration>(longest, s.chain->pace().step);
  return longest;
}

base::Duration WindowWaits::timeout() const {
  const base::Duration step = this->step();
  if (step == step.zero())
    return limits::first_draft_timeout;
  int longest = 0;
  for (const auto& [id, s] : sequences_)
    longest = std::max(longest, s.window);
  return std::clamp<base::Duration>(step * (longest + limits::draft_timeout_steps),
                                    limits::draft_timeout_min, limits::draft_timeout_max);
}

} // namespace paceline::scheduling
