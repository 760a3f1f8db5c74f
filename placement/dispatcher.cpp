#include "placement/dispatcher.hpp"

#include "placement/cost.hpp"

#include <algorithm>
#include <limits>

namespace paceline::placement {
namespace {

/// Sums of the same seconds differ by the order in which they were added.
constexpr double rounding_seconds = 1e-9;

} // namespace

Dispatcher::Dispatcher(const Problem& problem, const Placement& placement)
    : side_by_side_(placement::side_by_side(problem)), hosts_(problem.models.size()), begin_{0} {
  if (side_by_side_)
    engines_.assign(placement.groups.size(), Engines(problem.devices.contention));
  for (std::size_t g = 0; g < placement.groups.size(); ++g) {
    const Group& group = placement.groups[g];
    const std::size_t begin = begin_.back();
    begin_.push_back(begin + std::size_t(group.shape.pipeline));
    for (const int model : group.models) {
      const StageCosts costs =
          stage_costs(problem.models[std::size_t(model)], group.shape, problem.devices);
      hosts_[std::size_t(model)].push_back(
          {int(g), begin, begin_.back(), seconds_.size(), least_seconds(costs)});
      seconds_.insert(seconds_.end(), costs.seconds.begin(), costs.seconds.end());
      if (side_by_side_)
        engines_[g].add(model, Pace(costs));
    }
  }
  busy_until_.resize(begin_.back(), 0);
}

Dispatch Dispatcher::dispatch(int model, double now, double deadline) {
  if (side_by_side_)
    return dispatch_side_by_side(model, deadline);
  const Host* best = nullptr;
  double earliest = std::numeric_limits<double>::infinity();
  for (const Host& host : hosts_[std::size_t(model)])
    if (const double end = finish(host, now); end < earliest) {
      earliest = end;
      best = &host;
    }
  if (!best)
    return {};
  if (earliest > deadline + rounding_seconds)
    return {Dispatch::Outcome::late, best->group, earliest, best->slowest};
  send(*best, now);
  return {Dispatch::Outcome::accepted, best->group, earliest, best->slowest, ++number_};
}

Dispatch Dispatcher::dispatch_side_by_side(int model, double deadline) {
  Dispatch best;
  for (const Host& host : hosts_[std::size_t(model)]) {
    const auto [finish, harmful] = engines_[std::size_t(host.group)].foresee(model);
    const bool late = harmful || finish > deadline + rounding_seconds;
    const auto outcome = late ? Dispatch::Outcome::late : Dispatch::Outcome::accepted;
    const bool first = best.outcome == Dispatch::Outcome::not_placed;
    if (first || (best.outcome == outcome ? finish < best.finish - rounding_seconds : !late))
      best = {outcome, host.group, finish, host.slowest};
  }
  if (best.outcome == Dispatch::Outcome::accepted) {
    best.number = ++number_;
    engines_[std::size_t(best.group)].send(model, best.number, deadline);
  }
  return best;
}

std::vector<Engines::End> Dispatcher::run_until(double now) {
  std::vector<Engines::End> ended;
  for (Engines& engines : engines_)
    engines.run_until(now, ended);
  std::ranges::stable_sort(ended, {}, &Engines::End::seconds);
  return ended;
}

void Dispatcher::hold_until(double now) {
  for (Engines& engines : engines_)
    engines.hold_until(now);
}

void Dispatcher::end(int group, std::uint64_t number) {
  engines_[std::size_t(group)].end(number);
}

void Dispatcher::resend(int group, int model, std::uint64_t number) {
  engines_[std::size_t(group)].send(model, number, std::numeric_limits<double>::infinity());
}

double Dispatcher::idle_at(int group) const {
  return side_by_side_ ? engines_[std::size_t(group)].idle_at() : busy_until(group).back();
}

double Dispatcher::finish(const Host& host, double now) const {
  const double* seconds = &seconds_[host.costs];
  for (std::size_t stage = host.begin; stage < host.end; ++stage)
    now = std::max(now, busy_until_[stage]) + *seconds++;
  return now;
}

void Dispatcher::send(const Host& host, double now) {
  const double* seconds = &seconds_[host.costs];
  for (std::size_t stage = host.begin; stage < host.end; ++stage)
    now = busy_until_[stage] = std::max(now, busy_until_[stage]) + *seconds++;
}

std::span<const double> Dispatcher::busy_until(int group) const {
  const std::size_t begin = begin_[std::size_t(group)];
  return {&busy_until_[begin], begin_[std::size_t(group) + 1] - begin};
}

std::span<const double> Dispatcher::stages(int model, int group) const {
  for (const Host& host : hosts_[std::size_t(model)])
    if (host.group == group)
      return {&seconds_[host.costs], host.end - host.begin};
  return {};
}

std::span<double> Dispatcher::stages_of(int group) {
  const std::size_t begin = begin_[std::size_t(group)];
  return {&busy_until_[begin], begin_[std::size_t(group) + 1] - begin};
}

void Dispatcher::go_on_from(const Dispatcher& before) {
  number_ = before.number_;
  if (side_by_side_ != before.side_by_side_)
    return;
  std::copy(before.busy_until_.begin(), before.busy_until_.end(), busy_until_.begin());
  for (std::size_t g = 0; g < before.engines_.size(); ++g)
    engines_[g].go_on_from(before.engines_[g]);
}

void Dispatcher::occupy(int group, double until) {
  for (double& busy : stages_of(group))
    busy = std::max(busy, until);
}

void Dispatcher::release(int group, double now) {
  for (double& busy : stages_of(group))
    busy = std::min(busy, now);
}

void Dispatcher::shift(int group, double seconds) {
  for (double& busy : stages_of(group))
    busy += seconds;
}

} // namespace paceline::placement
