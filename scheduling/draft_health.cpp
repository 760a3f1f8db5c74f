#include "scheduling/draft_health.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline::scheduling {

// ---- the draft of one sequence ----

void SequenceHealth::observe(int window, int accepted, double cost) {
  const double gain = accepted - cost;
  const double most = std::max(window + 1 - cost, 1.0); // a whole window, whose lookahead came true
  lost_ = std::max(lost_ - gain, 0.0);
  double highest = 0;
  for (std::size_t i = 0; i < stakes.size(); ++i) {
    gains_[i] = std::max(gains_[i] + std::log(1 - stakes[i] * gain / most), 0.0);
    highest = std::max(highest, gains_[i]);
  }
  if (highest < std::log(stakes.size() / false_alarms))
    return;
  pause_ = std::clamp(int(lost_ / budget), shortest_pause, longest_pause);
  gains_ = {};
  lost_ = 0;
}

std::optional<int> SequenceHealth::awaits() {
  if (!late_ || std::exchange(late_->awaited, true))
    return std::nullopt;
  return late_->until;
}

std::optional<base::TimePoint> SequenceHealth::go_on() {
  const auto late = std::exchange(late_, std::nullopt);
  return late ? std::optional(late->since) : std::nullopt;
}

bool SequenceHealth::has_grown(int tokens) {
  return tokens > std::exchange(tokens_, tokens);
}

// ---- the draft of all ----

DraftState DraftHealth::state(base::TimePoint now) const {
  if (disabled_)
    return DraftState::disabled;
  if (draft_ == 0)
    return DraftState::failing;
  if (now < paused_until_)
    return DraftState::paused;
  return now < late_until_ ? DraftState::late : DraftState::healthy;
}

void DraftHealth::replaced_by(std::uint64_t draft) {
  if (std::exchange(draft_, draft) != draft)
    watch_anew();
}

void DraftHealth::was_late(base::TimePoint now) {
  back_off_ = std::clamp<base::Duration>(back_off_ * 2, limits::draft_back_off_min,
                                         limits::draft_back_off_max);
  late_until_ = now + back_off_;
}

void DraftHealth::held_up(base::TimePoint since, base::TimePoint now) {
  const base::Duration delay = now - since;
  if (delay <= delay.zero())
    return;
  const bool again = counted_ && now < paused_until_ + limits::draft_pause_factor_max * delay;
  if (!again)
    pause_factor_ = 1;
  else if (since >= *counted_)
    pause_factor_ = std::min(2 * pause_factor_, limits::draft_pause_factor_max);
  counted_ = now;
  paused_until_ = std::max(paused_until_, now + pause_factor_ * delay);
}

bool DraftHealth::stands_still(bool owes, bool has_written, base::Duration step,
                               base::TimePoint now) {
  if (patience_ <= base::Duration::zero())
    return false;
  if (has_written)
    watch_anew();
  if (owes_since_)
    silent_ += now - *owes_since_;
  owes_since_ = owes && draft_ != 0 ? std::optional(now) : std::nullopt;
  if (silent_ < std::max<base::Duration>(patience_, step * limits::stall_steps))
    return false;
  watch_anew();
  return true;
}

void DraftHealth::watch_anew() {
  silent_ = {};
  owes_since_.reset();
}

} // namespace paceline::scheduling
