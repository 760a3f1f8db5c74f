// Placements that follow the requests that come.
#include "apps/server/fleet.hpp"
#include "apps/server/threads.hpp"
#include "placement/planner.hpp"

#include <algorithm>

namespace paceline::apps::serve {
namespace asio = boost::asio;
using placement::Group;

namespace {

/// Renumbers the models of a placement; models without a number are left out.
placement::Placement renumbered(placement::Placement placement, const std::vector<int>& numbers) {
  for (Group& group : placement.groups) {
    std::vector<int> models;
    for (const int model : group.models)
      if (numbers[std::size_t(model)] >= 0)
        models.push_back(numbers[std::size_t(model)]);
    std::sort(models.begin(), models.end());
    group.models = std::move(models);
  }
  return placement;
}

} // namespace

asio::awaitable<void> Fleet::follow_load() {
  while (!stopping_) {
    const auto next = Clock::now() + options_.replan;
    while (!stopping_ && Clock::now() < next)
      co_await changed(next);
    if (!stopping_ && !moving_)
      co_await replan();
  }
}

/// Returns those groups of `all` that are the plan's.
placement::Placement Fleet::planned(const placement::Placement& all) const {
  placement::Placement some;
  for (const std::size_t group : planned_)
    some.groups.push_back(all.groups[group]);
  return some;
}

/// Makes a plan from the requests since the last one, and follows it if much is gained.
asio::awaitable<void> Fleet::replan() {
  std::vector<int> models;
  std::vector<int> numbers(models_.size(), -1); // Index of each model in the plan.
  placement::Problem problem{{}, problem_.devices};
  problem.devices.count = 0;
  for (std::size_t m = 0; m < models_.size(); ++m)
    if (models_[m].wanted && !models_[m].failure) {
      numbers[m] = int(models.size());
      models.push_back(int(m));
      problem.models.push_back(problem_.models[m]);
    }
  const double span = std::chrono::duration<double>(options_.replan).count();
  const auto workload = placement::only(controller_.observed(seconds(Clock::now()), span), models);
  if (workload.arrivals.empty())
    co_return;
  const placement::Placement before = planned(wanted_);
  const auto limit = Clock::now() + options_.replan / 2;
  placement::PlanOptions how;
  for (const Group& group : before.groups) {
    how.groups.push_back(group.shape);
    problem.devices.count += group.shape.devices();
  }
  how.stop = [&] { return stopping_ || Clock::now() >= limit; };
  placement::Selection found;
  placement::Score now;
  co_await run_on(planner_, executor_, [&] {
    now = score(simulate(problem, renumbered(before, numbers), workload));
    found = placement::plan(problem, workload, how);
    found.placement = placement::with_all_models(problem, std::move(found.placement));
    found.score = score(simulate(problem, found.placement, workload));
  });
  if (stopping_ || moving_ || planned(wanted_) != before ||
      !placement::worth_moving(now, found.score) ||
      !adopt(models, renumbered(found.placement, models)))
    co_return;
  moves_["replan"] += 1;
  log_.info("replanned", {{"requests", workload.arrivals.size()},
                          {"attainment", now.attainment},
                          {"planned", found.score.attainment}});
  co_await settle();
}

/// Makes the plan that was found the wanted placement, unless a model would lose its last place.
bool Fleet::adopt(const std::vector<int>& models, const placement::Placement& found) {
  placement::Placement next = planned(wanted_);
  for (std::size_t g = 0; g < planned_.size(); ++g) {
    for (const int model : models)
      next.groups[g].remove(model);
    for (const int model : found.groups[g].models)
      next.groups[g].add(model);
  }
  if (!std::ranges::all_of(models, [&](int model) { return next.hosts(model); }))
    return false;
  next = placement::nearest(planned(held_), std::move(next));
  for (std::size_t g = 0; g < planned_.size(); ++g)
    wanted_.groups[planned_[g]].models = std::move(next.groups[g].models);
  return true;
}

} // namespace paceline::apps::serve
