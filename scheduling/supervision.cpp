#include "scheduling/supervision.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace paceline::scheduling {
namespace {

/// Says whether a child belongs to the target's device, or is told of by what that holds.
bool moves_with_target(Role role) {
  return role != Role::facade && role != Role::sampler;
}

} // namespace

Supervision::Supervision(Config config)
    : config_(std::move(config)),
      care_(config_.children.size(),
            {.failures = FailureCount(std::int64_t(config_.faults.restarts_max) + 1)}) {}

Supervision::Actions Supervision::start(base::TimePoint now) {
  Turn turn{now, {}};
  for (Child child = 0; child < care_.size(); ++child)
    start(turn, child);
  turn.act(Announce{});
  return std::move(turn.actions);
}

Supervision::Actions Supervision::went_down(Child child, base::TimePoint now) {
  Turn turn{now, {}};
  const Role role = config_.children[child];
  Care& care = care_[child];
  care.running = false;
  const bool failing = keeps_failing(child, now);
  if (failing && role == Role::target && config_.has_standby)
    move_target(turn);
  else if (role == Role::facade || (failing && role != Role::draft))
    return {EndEngine{}};
  if (role == Role::draft) {
    turn.act(Announce{}); // nobody waits for the draft meanwhile
    if (failing)
      disable(turn, child);
    if (care.disabled) {
      start_due(turn); // those who had to wait for it
      return std::move(turn.actions);
    }
  }
  if (role == Role::target && returns(child))
    end_caches(turn);
  care.pause = std::clamp<base::Duration>(care.pause * 2, config_.faults.restart_pause,
                                          config_.faults.restart_pause_max);
  care.due = now + care.pause;
  turn.act(WakeAfter{care.pause});
  return std::move(turn.actions);
}

/// Counts a failure, unless the child was told to go. A child that comes back some day does not
/// keep failing.
bool Supervision::keeps_failing(Child child, base::TimePoint now) {
  Care& care = care_[child];
  if (now - care.started >= config_.faults.restarts_forgotten) {
    care.failures.forget();
    care.pause = {};
  }
  const bool told_to = std::exchange(care.leaving, false);
  return !told_to && care.failures.failed() && !returns(child);
}

bool Supervision::returns(Child child) const {
  return std::ranges::find(config_.returning, child) != config_.returning.end();
}

/// Ends the cache managers, since what they know of pages is lost on the other machine.
void Supervision::end_caches(Turn& turn) {
  for (Child child = 0; child < care_.size(); ++child)
    if (config_.children[child] == Role::kv_cache && care_[child].running) {
      care_[child].leaving = true;
      turn.act(EndChild{child});
    }
}

Supervision::Actions Supervision::time_passed(base::TimePoint now) {
  Turn turn{now, {}};
  start_due(turn);
  return std::move(turn.actions);
}

Supervision::Actions Supervision::disable(Child draft) {
  Turn turn{};
  disable(turn, draft);
  return std::move(turn.actions);
}

Supervision::Actions Supervision::move_target() {
  Turn turn{};
  move_target(turn);
  return std::move(turn.actions);
}

void Supervision::start(Turn& turn, Child child) {
  care_[child].running = true;
  care_[child].started = turn.now;
  turn.act(StartChild{child});
}

void Supervision::start_due(Turn& turn) {
  if (std::ranges::any_of(care_, &Care::leaving))
    return; // whoever is the last of them comes here, too
  bool any = false;
  for (Child child = 0; child < care_.size(); ++child) {
    Care& care = care_[child];
    if (!care.due || turn.now < *care.due)
      continue;
    care.due.reset();
    if (care.disabled)
      continue;
    start(turn, child);
    any = true;
  }
  if (any)
    turn.act(Announce{});
}

void Supervision::disable(Turn& turn, Child draft) {
  if (std::exchange(care_[draft].disabled, true))
    return;
  turn.act(DisableDraft{});
  if (care_[draft].running) // the rest follows when it is down
    turn.act(EndChild{draft});
}

void Supervision::move_target(Turn& turn) {
  if (!std::exchange(config_.has_standby, false))
    return;
  turn.act(MoveTarget{});
  for (Child child = 0; child < care_.size(); ++child) {
    if (!moves_with_target(config_.children[child]))
      continue;
    Care& care = care_[child];
    care.failures.forget();
    care.pause = {};
    care.leaving = care.running;
    if (care.running)
      turn.act(EndChild{child});
  }
}

} // namespace paceline::scheduling
