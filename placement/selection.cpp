#include "placement/selection.hpp"

#include "placement/cost.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace paceline::placement {
namespace {

/// How many groups a beam of more than one tries for a model.
constexpr std::size_t groups_tried = 2;
/// A greedy selection gives a place to one model in so many between two simulations.
constexpr std::size_t models_share = 16;

struct State {
  Placement placement;
  Outcome outcome;
  Score score;
};

class Selector {
public:
  Selector(const Problem& problem, const Workload& workload)
      : problem_(problem), workload_(workload), requests_(problem.models.size(), 0.0) {
    for (const Arrival& arrival : workload.arrivals)
      ++requests_[std::size_t(arrival.model)];
  }

  State simulated(Placement placement) {
    ++simulations_;
    Outcome outcome = simulate(problem_, placement, workload_);
    const Score of = score(outcome);
    return {std::move(placement), std::move(outcome), of};
  }

  /// Gives each model one place, those with most work first.
  Placement start(Placement groups) const {
    std::vector<double> busy(groups.groups.size(), 0.0);
    for (const int model : by_size(work()))
      place(groups, busy, model, requests_[std::size_t(model)]);
    return groups;
  }

  /// Gives the room that is left to all models in turn, those with most work first.
  Placement filled(const State& state) const {
    Placement next = state.placement;
    std::vector<double> busy = state.outcome.busy_seconds;
    for (bool placed = true; placed;) {
      placed = false;
      for (const int model : by_size(work()))
        placed |= place(next, busy, model, requests_[std::size_t(model)]);
    }
    return next;
  }

  /// Adds several places at once; none: there is nothing to add.
  std::optional<Placement> greedy_step(const State& state) const {
    Placement next = state.placement;
    std::vector<double> busy = state.outcome.busy_seconds;
    std::size_t left = std::max<std::size_t>(1, requests_.size() / models_share);
    for (const int model : unserved(state)) {
      left -= place(next, busy, model, double(state.outcome.unserved[std::size_t(model)])) ? 1 : 0;
      if (left == 0)
        break;
    }
    return next == state.placement ? std::nullopt : std::optional(std::move(next));
  }

  /// Returns placements with one place more, for each of the `width` models that want it most.
  std::vector<Placement> beam_step(const State& state, int width) const {
    std::vector<Placement> all;
    for (const int model : unserved(state)) {
      const auto groups = candidates(state.placement, state.outcome.busy_seconds, model);
      for (std::size_t i = 0; i < std::min(groups.size(), groups_tried); ++i) {
        all.push_back(state.placement);
        all.back().groups[groups[i]].add(model);
      }
      width -= groups.empty() ? 0 : 1;
      if (width == 0)
        break;
    }
    return all;
  }

  std::size_t simulations() const { return simulations_; }

private:
  /// Returns the seconds of one device that all requests take, by model.
  std::vector<double> work() const {
    std::vector<double> all = requests_;
    for (std::size_t m = 0; m < all.size(); ++m)
      all[m] *= problem_.models[m].latency_seconds;
    return all;
  }

  static std::vector<int> by_size(const std::vector<double>& sizes) {
    std::vector<int> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return sizes[std::size_t(a)] > sizes[std::size_t(b)]; });
    return order;
  }

  /// Returns the models with unserved requests, most of them first.
  static std::vector<int> unserved(const State& state) {
    const auto& counts = state.outcome.unserved;
    auto order = by_size({counts.begin(), counts.end()});
    std::erase_if(order, [&](int model) { return counts[std::size_t(model)] == 0; });
    return order;
  }

  /// Returns the groups that could host the model, the least busy first.
  std::vector<std::size_t> candidates(const Placement& placement, const std::vector<double>& busy,
                                      int model) const {
    std::vector<std::size_t> all;
    for (std::size_t g = 0; g < placement.groups.size(); ++g) {
      const Group& group = placement.groups[g];
      if (!group.hosts(model) && has_room(group, model, problem_) &&
          in_time(group.shape, model, problem_))
        all.push_back(g);
    }
    std::stable_sort(all.begin(), all.end(),
                     [&](std::size_t a, std::size_t b) { return busy[a] < busy[b]; });
    return all;
  }

  /// Gives the model a place, if it can. requests: what the group is expected to take over.
  bool place(Placement& placement, std::vector<double>& busy, int model, double requests) const {
    const auto groups = candidates(placement, busy, model);
    if (groups.empty())
      return false;
    Group& group = placement.groups[groups.front()];
    group.add(model);
    busy[groups.front()] +=
        requests * least_seconds(stage_costs(problem_.models[std::size_t(model)], group.shape,
                                             problem_.devices));
    return true;
  }

  const Problem& problem_;
  const Workload& workload_;
  std::vector<double> requests_; ///< Requests for each model.
  std::size_t simulations_ = 0;
};

bool better(const State& a, const State& b) {
  return a.score.better_than(b.score);
}

/// Returns the next generation of a beam, the best first.
std::vector<State> next_states(Selector& selector, const std::vector<State>& states, int beam,
                               const Stop& stop) {
  std::vector<Placement> placements;
  for (const State& state : states)
    for (Placement& next : selector.beam_step(state, beam))
      if (std::find(placements.begin(), placements.end(), next) == placements.end())
        placements.push_back(std::move(next));
  std::vector<State> next;
  for (Placement& placement : placements)
    if (!stop())
      next.push_back(selector.simulated(std::move(placement)));
  std::stable_sort(next.begin(), next.end(), better);
  if (next.size() > std::size_t(beam))
    next.resize(std::size_t(beam));
  return next;
}

} // namespace

bool Score::better_than(const Score& other) const {
  return attainment != other.attainment ? attainment > other.attainment
                                        : mean_latency < other.mean_latency;
}

Score score(const Outcome& outcome) {
  return {outcome.attainment(), outcome.mean_latency()};
}

Selection select_models(const Problem& problem, Placement groups, const Workload& workload,
                        int beam, const Stop& stop) {
  for (Group& group : groups.groups)
    group.models.clear();
  Selector selector(problem, workload);
  std::vector<State> states;
  states.push_back(selector.simulated(selector.start(std::move(groups))));
  State best = states.front();
  while (!states.empty() && best.score.attainment < 1 && !stop()) {
    if (beam > 1) {
      states = next_states(selector, states, beam, stop);
    } else if (auto next = selector.greedy_step(states.front())) {
      states.front() = selector.simulated(std::move(*next));
    } else {
      states.clear();
    }
    if (!states.empty() && better(states.front(), best))
      best = states.front();
  }
  if (best.score.attainment == 1 && !stop())
    if (State full = selector.simulated(selector.filled(best)); full.score.attainment == 1)
      best = std::move(full);
  return {std::move(best.placement), best.score, selector.simulations()};
}

} // namespace paceline::placement
