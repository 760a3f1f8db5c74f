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
    : hosts_(problem.models.size()), begin_{0} {
  for (std::size_t g = 0; g < placement.groups.size(); ++g) {
    const Group& group = placement.groups[g];
    const std::size_t begin = begin_.back();
    begin_.push_back(begin + std::size_t(group.shape.pipeline));
    for (const int model : group.models) {
      const auto seconds =
          stage_seconds(problem.models[std::size_t(model)], group.shape, problem.devices);
      hosts_[std::size_t(model)].push_back({int(g), begin, begin_.back(), seconds_.size(),
                                            *std::max_element(seconds.begin(), seconds.end())});
      seconds_.insert(seconds_.end(), seconds.begin(), seconds.end());
    }
  }
  busy_until_.resize(begin_.back(), 0);
}

Dispatch Dispatcher::dispatch(int model, double now, double deadline) {
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
  return {Dispatch::Outcome::accepted, best->group, earliest, best->slowest};
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
  std::copy(before.busy_until_.begin(), before.busy_until_.end(), busy_until_.begin());
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
