#include "placement/controller.hpp"

#include "placement/limits.hpp"

#include <algorithm>

namespace paceline::placement {

Controller::Controller(Problem problem, const Placement& placement)
    : problem_(std::move(problem)), dispatcher_(problem_, placement),
      queues_(placement.groups.size()) {}

Controller::Routed Controller::begin(int model, double now, double deadline) {
  note_overdue(now);
  Routed routed{dispatcher_.dispatch(model, now, deadline), {}};
  if (routed.dispatch.outcome != Dispatch::Outcome::accepted)
    return routed;
  Queue& queue = queues_[std::size_t(routed.dispatch.group)];
  const std::uint64_t number = routed.dispatch.number;
  queue.open.push_back({number, model, routed.dispatch.finish - queue.moved});
  routed.ticket = {routed.dispatch.group, number};
  return routed;
}

void Controller::end(const Ticket& ticket, double now) {
  auto& [open, moved] = queues_[std::size_t(ticket.group)];
  const auto found = std::find_if(open.begin(), open.end(),
                                  [&](const Open& one) { return one.number == ticket.number; });
  const bool oldest = found == open.begin();
  const double expected = found->finish + moved;
  open.erase(found);
  if (dispatcher_.side_by_side()) {
    dispatcher_.hold_until(now);
    dispatcher_.end(ticket.group, ticket.number);
  } else if (open.empty())
    dispatcher_.release(ticket.group, now);
  else if (oldest)
    move(ticket.group, now - expected);
}

/// Moves the queues whose oldest request should be done by now and is not: it will be done now at
/// the earliest, and so will what is behind it.
void Controller::note_overdue(double now) {
  if (dispatcher_.side_by_side())
    return dispatcher_.hold_until(now);
  for (std::size_t group = 0; group < queues_.size(); ++group) {
    const auto& [open, moved] = queues_[group];
    if (!open.empty() && open.front().finish + moved < now)
      move(int(group), now - open.front().finish - moved);
  }
}

void Controller::move(int group, double seconds) {
  dispatcher_.shift(group, seconds);
  queues_[std::size_t(group)].moved += seconds;
}

void Controller::change(Problem problem, const Placement& placement) {
  problem_ = std::move(problem);
  Dispatcher next(problem_, placement);
  std::swap(dispatcher_, next);
  queues_.resize(placement.groups.size());
  go_on_from(next);
}

/// Makes groups as busy as they were. Where they answer side by side from now on, or no longer,
/// what is open counts as if it had just come.
void Controller::go_on_from(const Dispatcher& before) {
  dispatcher_.go_on_from(before);
  if (dispatcher_.side_by_side() == before.side_by_side())
    return;
  for (std::size_t group = 0; group < before.groups(); ++group) {
    const double idle_at = before.idle_at(int(group));
    if (!dispatcher_.side_by_side())
      dispatcher_.occupy(int(group), idle_at);
    for (Open& one : queues_[group].open)
      if (!dispatcher_.side_by_side())
        one.finish = idle_at - queues_[group].moved;
      else if (!dispatcher_.stages(one.model, int(group)).empty())
        dispatcher_.resend(int(group), one.model, one.number);
  }
}

double Controller::queue_seconds(int group, double now) const {
  return std::max(0.0, dispatcher_.idle_at(group) - now);
}

void Controller::note(int model, double now) {
  if (arrivals_.size() == limits::observed_max)
    arrivals_.pop_front();
  arrivals_.push_back({now, model});
}

Workload Controller::observed(double now, double seconds) const {
  Workload workload{seconds, {}};
  const double begin = now - seconds;
  for (const Arrival& arrival : arrivals_)
    if (arrival.seconds >= begin)
      workload.arrivals.push_back({arrival.seconds - begin, arrival.model});
  return workload;
}

} // namespace paceline::placement
