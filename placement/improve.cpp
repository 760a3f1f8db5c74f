// Improves a placement by random changes.
#include "placement/random.hpp"
#include "placement/selection.hpp"

#include <algorithm>
#include <boost/random/uniform_int_distribution.hpp>
#include <cmath>
#include <optional>

namespace paceline::placement {
namespace {

class Changes {
public:
  Changes(const Problem& problem, std::uint64_t seed)
      : problem_(problem), random_(seed, Draws::moves, 0) {}

  /// Returns a placement that differs and fits, by one change or by a few at once, as some only pay
  /// together. Returns none if this draw was not possible.
  std::optional<Placement> draw(const Placement& from) {
    Placement next = from;
    do {
      if (!change(next))
        return std::nullopt;
    } while (below(2) == 0);
    return next != from ? std::optional(std::move(next)) : std::nullopt;
  }

private:
  bool change(Placement& placement) {
    Group& group = placement.groups[below(placement.groups.size())];
    const int model = int(below(problem_.models.size()));
    switch (below(4)) {
    case 0: return add(group, model);
    case 1: return drop(group);
    case 2: return drop(group) && add(group, model);
    default: return exchange(group, placement.groups[below(placement.groups.size())]);
    }
  }

  std::size_t below(std::size_t n) {
    return boost::random::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }

  bool add(Group& group, int model) {
    if (group.hosts(model) || !has_room(group, model, problem_) ||
        !in_time(group.shape, model, problem_))
      return false;
    group.add(model);
    return true;
  }

  std::optional<int> take(Group& group) {
    if (group.models.empty())
      return std::nullopt;
    const int model = group.models[below(group.models.size())];
    group.remove(model);
    return model;
  }

  bool drop(Group& group) { return take(group).has_value(); }

  /// Exchanges one model of each group for one of the other's; an empty group only gets one.
  bool exchange(Group& one, Group& other) {
    const auto mine = take(one);
    const auto theirs = take(other);
    return (!mine || add(other, *mine)) && (!theirs || add(one, *theirs));
  }

  const Problem& problem_;
  Random random_;
};

} // namespace

Selection improve(const Problem& problem, Selection from, const Workload& workload, int trials,
                  std::uint64_t seed, const Stop& stop) {
  if (from.placement.groups.empty() || problem.models.empty())
    return from;
  Changes changes(problem, seed);
  const auto requests = double(workload.arrivals.size());
  for (int trial = 0; trial < trials && !stop(); ++trial) {
    auto next = changes.draw(from.placement);
    if (!next)
      continue;
    const auto unserved = std::size_t(std::lround((1 - from.score.attainment) * requests));
    const Score of = score(simulate(problem, *next, workload, unserved)); // more unserved is worse
    ++from.simulations;
    if (of.better_than(from.score)) {
      from.placement = std::move(*next);
      from.score = of;
    }
  }
  return from;
}

} // namespace paceline::placement
