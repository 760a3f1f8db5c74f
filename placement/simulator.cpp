#include "placement/simulator.hpp"

#include <algorithm>
#include <numeric>

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

Outcome simulate(Dispatcher& dispatcher, const Problem& problem, const Workload& workload,
                 const Observer& observer, std::size_t unserved_max) {
  Outcome outcome;
  outcome.unserved.resize(problem.models.size());
  outcome.busy_seconds.resize(dispatcher.groups());
  outcome.latencies.reserve(workload.arrivals.size());
  outcome.requests = workload.arrivals.size();
  std::size_t unserved = 0;
  for (const Arrival& arrival : workload.arrivals) {
    const auto model = std::size_t(arrival.model);
    const Dispatch sent = dispatcher.dispatch(
        arrival.model, arrival.seconds, arrival.seconds + problem.models[model].objective_seconds);
    if (sent.outcome != Dispatch::Outcome::accepted) {
      ++outcome.unserved[model];
      if (++unserved > unserved_max)
        break;
      continue;
    }
    outcome.latencies.push_back(sent.finish - arrival.seconds);
    outcome.busy_seconds[std::size_t(sent.group)] += sent.slowest_stage;
    if (observer)
      observer(arrival, sent, dispatcher);
  }
  return outcome;
}

Outcome simulate(const Problem& problem, const Placement& placement, const Workload& workload,
                 std::size_t unserved_max) {
  Dispatcher dispatcher(problem, placement);
  return simulate(dispatcher, problem, workload, nullptr, unserved_max);
}

} // namespace paceline::placement
