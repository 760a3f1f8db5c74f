#include "placement/moves.hpp"

#include <algorithm>
#include <climits>
#include <utility>

namespace paceline::placement {
namespace {

int places(const Placement& placement, int model) {
  return int(std::count_if(placement.groups.begin(), placement.groups.end(),
                           [&](const Group& group) { return group.hosts(model); }));
}

/// Visits the models of `one` that the same group of `other` does not have.
template <class Visit>
void each_missing(const Placement& one, const Placement& other, const Visit& visit) {
  for (std::size_t g = 0; g < one.groups.size(); ++g)
    for (const int model : one.groups[g].models)
      if (!other.groups[g].hosts(model))
        visit(int(g), model);
}

std::size_t common(const Group& one, const Group& other) {
  return std::size_t(std::count_if(one.models.begin(), one.models.end(),
                                   [&](int model) { return other.hosts(model); }));
}

} // namespace

std::optional<Move> next_move(const Problem& problem, const Placement& now,
                              const Placement& wanted) {
  std::optional<Move> load;
  each_missing(wanted, now, [&](int group, int model) {
    if (!load && has_room(now, std::size_t(group), model, problem))
      load = Move{Move::Kind::load, group, model};
  });
  if (load)
    return load;
  std::optional<Move> unload;
  int most = 0;
  each_missing(now, wanted, [&](int group, int model) {
    const int spare = places(wanted, model) == 0 ? INT_MAX : places(now, model);
    if (spare > most) {
      most = spare;
      unload = Move{Move::Kind::unload, group, model};
    }
  });
  return unload;
}

Placement nearest(const Placement& now, Placement wanted) {
  auto& groups = wanted.groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::size_t best = g;
    for (std::size_t other = g + 1; other < groups.size(); ++other)
      if (groups[other].shape == groups[g].shape &&
          common(now.groups[g], groups[other]) > common(now.groups[g], groups[best]))
        best = other;
    std::swap(groups[g].models, groups[best].models);
  }
  return wanted;
}

Placement with_all_models(const Problem& problem, Placement placement) {
  for (int model = 0; model < int(problem.models.size()); ++model)
    for (std::size_t g = 0; g < placement.groups.size() && places(placement, model) == 0; ++g) {
      Group next = placement.groups[g];
      for (const int other : placement.groups[g].models)
        if (!has_room(next, model, problem) && places(placement, other) > 1)
          next.remove(other);
      if (has_room(next, model, problem)) {
        next.add(model);
        placement.groups[g] = std::move(next);
      }
    }
  return placement;
}

bool worth_moving(const Score& now, const Score& wanted) {
  constexpr double served_more = 0.01;
  constexpr double faster = 0.9;
  return wanted.attainment >= now.attainment + served_more ||
         (wanted.attainment >= now.attainment && wanted.mean_latency < faster * now.mean_latency);
}

} // namespace paceline::placement
