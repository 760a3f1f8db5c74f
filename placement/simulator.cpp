#include "placement/simulator.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace paceline::placement {

double Outcome::attainment() const {
  return requests > 0 ? double(latencies.size()) / double(requests) : 1;
}

double Outcome::mean_latency() const {
  const double sum = std::accumulate(latencies.begin(), latencies.end(), 0.0);
  return latencies.empty() ? 0 : sum / double(latencies.size());
}

double Outcome::quantile(double share) const {
  if (latencies.empty())
    return 0;
  std::vector<double> sorted = latencies;
  const auto at = std::min(std::size_t(share * double(sorted.size())), sorted.size() - 1);
  std::nth_element(sorted.begin(), sorted.begin() + std::ptrdiff_t(at), sorted.end());
  return sorted[at];
}

void Outcome::append(const Outcome& other) {
  const auto add = [](auto& sums, const auto& more) {
    sums.resize(std::max(sums.size(), more.size()));
    for (std::size_t i = 0; i < more.size(); ++i)
      sums[i] += more[i];
  };
  add(unserved, other.unserved);
  add(busy_seconds, other.busy_seconds);
  latencies.insert(latencies.end(), other.latencies.begin(), other.latencies.end());
  requests += other.requests;
}

namespace {

/// Requests whose ends are not known as they are sent.
class Pending {
public:
  Pending(const Observer& observer, Outcome& outcome) : observer_(observer), outcome_(outcome) {}

  void add(const Arrival& arrival, const Dispatch& sent) { sent_[sent.number] = {arrival, sent}; }
  void take(const std::vector<Engines::End>& ended, const Dispatcher& dispatcher) {
    for (const auto& [number, seconds] : ended) {
      const auto found = sent_.find(number);
      if (found == sent_.end())
        continue; // It is of an earlier run.
      auto& [arrival, sent] = found->second;
      sent.finish = seconds;
      outcome_.latencies.push_back(seconds - arrival.seconds);
      if (observer_)
        observer_(arrival, sent, dispatcher);
      sent_.erase(found);
    }
  }

private:
  const Observer& observer_;
  Outcome& outcome_;
  std::unordered_map<std::uint64_t, std::pair<Arrival, Dispatch>> sent_;
};

} // namespace

Outcome simulate(Dispatcher& dispatcher, const Problem& problem, const Workload& workload,
                 const Observer& observer, std::size_t unserved_max) {
  Outcome outcome;
  Pending pending(observer, outcome);
  outcome.unserved.resize(problem.models.size());
  outcome.busy_seconds.resize(dispatcher.groups());
  outcome.latencies.reserve(workload.arrivals.size());
  outcome.requests = workload.arrivals.size();
  std::size_t unserved = 0;
  for (const Arrival& arrival : workload.arrivals) {
    const auto model = std::size_t(arrival.model);
    if (dispatcher.side_by_side())
      pending.take(dispatcher.run_until(arrival.seconds), dispatcher);
    const Dispatch sent = dispatcher.dispatch(
        arrival.model, arrival.seconds, arrival.seconds + problem.models[model].objective_seconds);
    if (sent.outcome != Dispatch::Outcome::accepted) {
      ++outcome.unserved[model];
      if (++unserved > unserved_max)
        break;
      continue;
    }
    outcome.busy_seconds[std::size_t(sent.group)] += sent.slowest_stage;
    if (dispatcher.side_by_side()) {
      pending.add(arrival, sent);
      continue;
    }
    outcome.latencies.push_back(sent.finish - arrival.seconds);
    if (observer)
      observer(arrival, sent, dispatcher);
  }
  if (dispatcher.side_by_side()) {
    Dispatcher rest = dispatcher;
    pending.take(rest.run_until(std::numeric_limits<double>::infinity()), rest);
  }
  return outcome;
}

Outcome simulate(const Problem& problem, const Placement& placement, const Workload& workload,
                 std::size_t unserved_max) {
  Dispatcher dispatcher(problem, placement);
  return simulate(dispatcher, problem, workload, nullptr, unserved_max);
}

} // namespace paceline::placement
