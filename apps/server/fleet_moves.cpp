// Loading and unloading of models.
#include "apps/server/fleet.hpp"
#include "apps/server/threads.hpp"
#include "placement/cost.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/json/value_from.hpp>
#include <cmath>

namespace paceline::apps::serve {
namespace asio = boost::asio;
using placement::Group;

/// Adds a model. Requests for its name get this one from now on.
int Fleet::add_model(FleetModel model, placement::Model costs) {
  const int index = int(models_.size());
  std::erase_if(names_, [&](const auto& known) { return known.first == model.name; });
  names_.emplace_back(model.name, index);
  models_.push_back({.model = std::move(model)});
  problem_.models.push_back(std::move(costs));
  return index;
}

/// Returns the group of these devices, and adds it if there is none.
int Fleet::group_of(const std::vector<std::string>& devices, placement::Shape shape) {
  Group group{{}, shape, {}};
  for (const std::string& name : devices) {
    const auto found = std::find(devices_.begin(), devices_.end(), name);
    group.devices.push_back(int(found - devices_.begin()));
    if (found == devices_.end())
      devices_.push_back(name);
  }
  problem_.devices.count = int(devices_.size());
  for (std::size_t g = 0; g < wanted_.groups.size(); ++g)
    if (wanted_.groups[g].devices == group.devices && wanted_.groups[g].shape == shape)
      return int(g);
  held_.groups.push_back(group);
  wanted_.groups.push_back(std::move(group));
  return int(wanted_.groups.size()) - 1;
}

/// Makes what the plan has the wanted placement.
void Fleet::merge(const FleetPlan& plan) {
  const int count = problem_.devices.count;
  problem_.devices = plan.problem.devices;
  problem_.devices.count = count;
  for (Entry& entry : models_)
    entry.wanted = false;
  std::vector<int> indices;
  for (std::size_t m = 0; m < plan.models.size(); ++m) {
    const FleetModel& model = plan.models[m];
    const placement::Model& costs = plan.problem.models[m];
    auto index = find(model.name);
    const bool same = index && models_[std::size_t(*index)].model == model &&
                      problem_.models[std::size_t(*index)].memory_bytes == costs.memory_bytes;
    if (!index || (held_.hosts(*index) && !same))
      index = add_model(model, costs);
    models_[std::size_t(*index)] = {.model = model};
    problem_.models[std::size_t(*index)] = costs;
    indices.push_back(*index);
  }
  planned_.clear();
  for (Group& group : wanted_.groups)
    group.models.clear();
  for (const Group& from : plan.placement.groups) {
    std::vector<std::string> names;
    for (const int device : from.devices)
      names.push_back(plan.devices[std::size_t(device)]);
    const int group = group_of(names, from.shape);
    planned_.push_back(std::size_t(group));
    for (const int model : from.models)
      wanted_.groups[std::size_t(group)].add(indices[std::size_t(model)]);
  }
}

void Fleet::open(const FleetPlan& plan, OpenEngine open, std::function<void(std::size_t)> opened) {
  open_engine_ = std::move(open);
  merge(plan);
  route();
  const auto work = [this, opened = std::move(opened)]() -> asio::awaitable<void> {
    co_await settle();
    opened(replicas_.size());
    if (options_.replan.count() > 0)
      co_await follow_load();
  };
  asio::co_spawn(executor_, work, asio::detached);
}

void Fleet::change(const FleetPlan& plan) {
  merge(plan);
  route();
  asio::co_spawn(executor_, settle(), asio::detached);
}

/// Moves models until they are where they are wanted. If a move is under way already, that one
/// follows the new placement.
asio::awaitable<void> Fleet::settle() {
  if (std::exchange(moving_, true))
    co_return;
  while (!stopping_) {
    const auto move = placement::next_move(problem_, held_, wanted_);
    if (!move)
      break;
    const Place place{move->group, move->model};
    if (move->kind == placement::Move::Kind::load)
      co_await load(place);
    else
      co_await unload(place);
  }
  moving_ = false;
  wake();
}

asio::awaitable<void> Fleet::settled() {
  co_await settle();
  while (moving_)
    co_await changed();
}

asio::awaitable<void> Fleet::load(Place place) {
  const auto [group, model] = place;
  const FleetModel spec = models_[std::size_t(model)].model;
  Group& holder = held_.groups[std::size_t(group)];
  const std::uint64_t memory =
      placement::bytes_per_device(problem_.models[std::size_t(model)], holder.shape);
  std::vector<std::string> devices;
  for (const int device : holder.devices)
    devices.push_back(devices_[std::size_t(device)]);
  const int shards = holder.shape.tensor;
  holder.add(model);
  const auto begin = Clock::now();
  Result<Engine> engine = fail(ErrorCode::internal, "it was not opened");
  co_await run_on(loader_, executor_,
                  [&] { engine = open_engine_(spec, devices, shards, memory); });
  Entry& entry = models_[std::size_t(model)];
  if (engine) {
    entry.failure.reset();
    moves_["load"] += 1;
    const std::string capacity = capacity_of(*engine);
    host(place, std::make_shared<Engine>(std::move(*engine)));
    log_.info("loaded",
              {{"model", spec.name},
               {"device", devices_of(group)},
               {"seconds", std::round(1e3 * (seconds(Clock::now()) - seconds(begin))) / 1e3},
               {"capacity", capacity}});
  } else {
    entry.failure = engine.error();
    moves_["failed_load"] += 1;
    log_.write(
        LogLevel::error, "load",
        {{"model", spec.name}, {"device", devices_of(group)}, {"error", engine.error().text()}});
    wanted_.groups[std::size_t(group)].remove(model);
    gone(place);
  }
}

/// Gives the engine no more requests, and waits until it has gone, after its last one has ended.
asio::awaitable<void> Fleet::unload(Place place) {
  const auto [group, model] = place;
  replicas_.erase(place);
  route();
  while (held_.groups[std::size_t(group)].hosts(model) && !stopping_)
    co_await changed();
}

void Fleet::host(Place place, std::shared_ptr<Engine> engine) {
  const std::string& name = models_[std::size_t(place.second)].model.name;
  if (const auto& ignored = engine->target().not_obeyed; !ignored.empty())
    log_.write(LogLevel::warning, "generation_config",
               {{"model", name}, {"not_obeyed", boost::json::value_from(ignored)}});
  replicas_[place] =
      std::shared_ptr<Replica>(new Replica(name, place.first, std::move(engine), options_.parsers),
                               [this, place](Replica* replica) { retire(place, replica); });
  route();
  wake();
}

/// Stops using an engine that has ended: it gets no more requests, and another one is opened in its
/// place.
void Fleet::drop(const Replica& ended) {
  const auto at = std::find_if(replicas_.begin(), replicas_.end(),
                               [&](const auto& entry) { return entry.second.get() == &ended; });
  if (at == replicas_.end() || !manages() || stopping_)
    return;
  log_.write(LogLevel::error, "ended",
             {{"model", ended.model()}, {"device", devices_of(at->first.first)}});
  replicas_.erase(at);
  route();
}

/// Closes an engine that nobody uses any more. Closing takes a while, so another thread does it.
void Fleet::retire(Place place, Replica* replica) {
  asio::post(loader_, [this, place, replica, home = asio::make_work_guard(executor_)] {
    delete replica;
    asio::post(home.get_executor(), [this, place] {
      moves_["unload"] += 1;
      log_.info("unloaded", {{"model", models_[std::size_t(place.second)].model.name},
                             {"device", devices_of(place.first)}});
      gone(place);
      asio::co_spawn(executor_, settle(), asio::detached); // An ended engine is replaced.
    });
  });
}

void Fleet::gone(Place place) {
  held_.groups[std::size_t(place.first)].remove(place.second);
  wake();
}

/// Tells the controller which engines may get requests.
void Fleet::route() {
  placement::Placement routed = held_;
  for (std::size_t g = 0; g < routed.groups.size(); ++g)
    std::erase_if(routed.groups[g].models, [&](int model) {
      return !replicas_.contains({int(g), model});
    });
  controller_.change(problem_, routed);
}

} // namespace paceline::apps::serve
