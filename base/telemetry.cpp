#include "base/telemetry.hpp"

#include <algorithm>

namespace paceline::base {
namespace {

constexpr std::size_t intervals_kept = 8;

} // namespace

void OverlapMeter::target_began(base::TimePoint at) {
  const std::lock_guard lock(mutex_);
  if (open_++ > 0)
    return;
  recent_.push_back({at, base::TimePoint::max()});
  if (recent_.size() > intervals_kept)
    recent_.pop_front();
}

void OverlapMeter::target_ended(base::TimePoint at) {
  const std::lock_guard lock(mutex_);
  if (open_ == 0 || --open_ > 0)
    return;
  recent_.back().end = at;
  sums_.target += at - recent_.back().begin;
}

void OverlapMeter::drafted(base::TimePoint begin, base::TimePoint end) {
  const std::lock_guard lock(mutex_);
  sums_.draft += end - begin;
  for (const Interval& target : recent_) {
    const auto from = std::max(begin, target.begin);
    const auto to = std::min(end, target.end);
    if (from < to)
      sums_.overlapped += to - from;
  }
}

OverlapMeter::Sums OverlapMeter::sums() const {
  const std::lock_guard lock(mutex_);
  return sums_;
}

Handling::Handling(Telemetry& telemetry, const char* actor, const char* message)
    : telemetry_(telemetry), actor_(actor), message_(message) {
  add(telemetry_.messages, 1);
  if (telemetry_.trace && telemetry_.trace->keeps())
    begin_ = telemetry_.time->now();
}

Handling::~Handling() {
  if (telemetry_.trace && telemetry_.trace->keeps())
    telemetry_.trace->span(actor_, message_, begin_, telemetry_.time->now());
}

Metrics Telemetry::snapshot() const {
  Metrics m;
  m.running = running;
  m.waiting = waiting;
  m.finished = finished;
  m.prompt_tokens = prompt_tokens;
  m.generated_tokens = generated_tokens;
  m.drafted = drafted;
  m.forked = forked;
  m.passes_behind = passes_behind;
  m.judged = judged;
  m.accepted = accepted;
  for (std::size_t i = 0; i < drafters.size(); ++i)
    m.drafters.push_back({drafters[i], by_drafter[i].judged, by_drafter[i].accepted});
  for (const auto& count : accepted_by_position)
    m.accepted_by_position.push_back(count);
  while (!m.accepted_by_position.empty() && m.accepted_by_position.back() == 0)
    m.accepted_by_position.pop_back();
  m.windows = windows;
  m.window_tokens = window_tokens;
  m.rounds = rounds;
  m.lookahead_hits = lookahead_hits;
  m.pre_enqueued_steps = pre_enqueued_steps;
  m.fork_steps = fork_steps;
  m.fork_hits = fork_hits;
  m.tree_rows = tree_rows;
  m.tree_tokens = tree_tokens;
  m.lookahead_rounds = lookahead_rounds;
  m.preemptions = preemptions;
  m.step_cost_error = step_cost_error;
  m.restarts = restarts;
  m.recomputations = recomputations;
  m.stalls = stalls;
  m.draft_late = draft_late;
  m.draft_pauses = draft_pauses;
  m.draft_disabled = draft_disabled;
  m.drafter_failures = drafter_failures;
  m.target_moved = target_moved;
  m.messages = messages;
  m.decode_round_seconds = double(decode_round_ns) * 1e-9;
  m.decode_lane_seconds = double(decode_lane_ns) * 1e-9;
  m.kv_pages_total = kv_pages_total;
  m.kv_pages_used = kv_pages_used;
  const OverlapMeter::Sums sums = overlap.sums();
  m.target_busy_seconds = base::seconds(sums.target);
  m.draft_busy_seconds = base::seconds(sums.draft);
  m.overlapped_seconds = base::seconds(sums.overlapped);
  return m;
}

} // namespace paceline::base
