// Models that come and go.
#include "apps/serve/fleet.hpp"
#include "apps/serve/threads.hpp"
#include "placement/planner.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace paceline::apps::serve {
namespace asio = boost::asio;
using placement::Group;

namespace {

ApiError cannot_load(std::string message, std::string param, unsigned status = 400) {
  return {.status = status,
          .message = std::move(message),
          .param = std::move(param),
          .code = status == 409 ? "conflict" : "invalid_value"};
}

/// Other numbers for the models of a placement; those without one are left out.
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

/// Who asks for its name gets this one from now on.
int Fleet::add_model(FleetModel model, placement::Model costs) {
  const int index = int(models_.size());
  std::erase_if(names_, [&](const auto& known) { return known.first == model.name; });
  names_.emplace_back(model.name, index);
  models_.push_back({.model = std::move(model)});
  problem_.models.push_back(std::move(costs));
  return index;
}

/// The group of these devices, which is there from now on.
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

/// Whether some device has memory for it: it is loaded, on its way or going.
bool Fleet::held(int model) const {
  return std::any_of(held_.groups.begin(), held_.groups.end(),
                     [&](const Group& group) { return group.hosts(model); });
}

/// What the plan has becomes what is wanted.
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
    if (!index || (held(*index) && !same))
      index = add_model(model, costs);
    models_[std::size_t(*index)] = {.model = model};
    problem_.models[std::size_t(*index)] = costs;
    indices.push_back(*index);
  }
  for (Group& group : wanted_.groups)
    group.models.clear();
  for (const Group& from : plan.placement.groups) {
    std::vector<std::string> names;
    for (const int device : from.devices)
      names.push_back(plan.devices[std::size_t(device)]);
    const int group = group_of(names, from.shape);
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

/// Moves models until they are where they are wanted. Whoever moves already sees what is wanted
/// now.
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
  const std::uint64_t memory = problem_.models[std::size_t(model)].memory_bytes;
  std::vector<std::string> devices;
  for (const int device : held_.groups[std::size_t(group)].devices)
    devices.push_back(devices_[std::size_t(device)]);
  held_.groups[std::size_t(group)].add(model);
  const auto begin = Clock::now();
  Result<Engine> engine = fail(ErrorCode::internal, "it was not opened");
  co_await run_on(loader_, executor_, [&] { engine = open_engine_(spec, devices, memory); });
  Entry& entry = models_[std::size_t(model)];
  if (engine) {
    entry.failure.reset();
    moves_["load"] += 1;
    host(place, std::make_shared<Engine>(std::move(*engine)));
    log_.info("loaded",
              {{"model", spec.name},
               {"device", devices_of(group)},
               {"seconds", std::round(1e3 * (seconds(Clock::now()) - seconds(begin))) / 1e3}});
  } else {
    entry.failure = engine.error();
    moves_["failed_load"] += 1;
    log_.write(
        Log::Level::error, "load",
        {{"model", spec.name}, {"device", devices_of(group)}, {"error", engine.error().text()}});
    wanted_.groups[std::size_t(group)].remove(model);
    gone(place);
  }
}

/// From now on it gets no request; it goes when the last one has ended.
asio::awaitable<void> Fleet::unload(Place place) {
  const auto [group, model] = place;
  replicas_.erase(place);
  route();
  while (held_.groups[std::size_t(group)].hosts(model) && !stopping_)
    co_await changed();
}

void Fleet::host(Place place, std::shared_ptr<Engine> engine) {
  const auto [group, model] = place;
  replicas_[place] = std::shared_ptr<Replica>(
      new Replica(models_[std::size_t(model)].model.name, group, std::move(engine)),
      [this, place](Replica* replica) { retire(place, replica); });
  route();
  wake();
}

/// Nobody uses the engine any more: to close it takes a while, so it is done elsewhere.
void Fleet::retire(Place place, Replica* replica) {
  asio::post(loader_, [this, place, replica, home = asio::make_work_guard(executor_)] {
    delete replica;
    asio::post(home.get_executor(), [this, place] {
      moves_["unload"] += 1;
      log_.info("unloaded", {{"model", models_[std::size_t(place.second)].model.name},
                             {"device", devices_of(place.first)}});
      gone(place);
    });
  });
}

void Fleet::gone(Place place) {
  held_.groups[std::size_t(place.first)].remove(place.second);
  wake();
}

/// Tells the controller who may get requests.
void Fleet::route() {
  placement::Placement routed = held_;
  for (std::size_t g = 0; g < routed.groups.size(); ++g)
    std::erase_if(routed.groups[g].models, [&](int model) {
      return !replicas_.contains({int(g), model});
    });
  controller_.change(problem_, routed);
}

/// The model's number; what is not said of one that is known stays.
ApiResult<int> Fleet::prepare(Loading& asked) {
  auto model = find(asked.model.name);
  if (!model) {
    if (!asked.memory_bytes || !asked.latency_seconds)
      return refuse(cannot_load(fmt::format("the model {} is new here: say its memory_bytes "
                                            "and its latency_ms",
                                            asked.model.name),
                                asked.memory_bytes ? "latency_ms" : "memory_bytes"));
    placement::Model costs;
    costs.name = asked.model.name;
    model = add_model(asked.model, std::move(costs));
    models_.back().wanted = false;
  }
  Entry& entry = models_[std::size_t(*model)];
  placement::Model& costs = problem_.models[std::size_t(*model)];
  const bool changes = !asked.model.checkpoint.empty() || !asked.model.draft.empty() ||
                       asked.memory_bytes || asked.latency_seconds || asked.objective_seconds;
  if (changes && held(*model))
    return refuse(cannot_load(fmt::format("the model {} is loaded as it is: unload it first, or "
                                          "give nothing but a device",
                                          entry.model.name),
                              "model", 409));
  if (!asked.model.checkpoint.empty())
    entry.model.checkpoint = asked.model.checkpoint;
  if (!asked.model.draft.empty())
    entry.model.draft = asked.model.draft;
  costs.memory_bytes = asked.memory_bytes.value_or(costs.memory_bytes);
  costs.objective_seconds = asked.objective_seconds.value_or(costs.objective_seconds);
  if (asked.latency_seconds) {
    costs.latency_seconds = *asked.latency_seconds;
    costs.measured.clear();
  }
  route();
  return *model;
}

/// The group with most room of those that may host it.
ApiResult<int> Fleet::room_for(int model, const std::string& device) const {
  std::optional<int> best;
  std::uint64_t least = 0;
  bool named = false;
  for (std::size_t g = 0; g < wanted_.groups.size(); ++g) {
    const Group& group = wanted_.groups[g];
    if (!device.empty() && devices_of(int(g)) != device)
      continue;
    named = true;
    const auto used = placement::bytes_per_device(group, problem_);
    if (group.hosts(model) || !placement::has_room(group, model, problem_) ||
        (best && used >= least))
      continue;
    best = int(g);
    least = used;
  }
  if (best)
    return *best;
  if (!named)
    return refuse(cannot_load(fmt::format("there is no device {} here", device), "device"));
  return refuse(
      cannot_load(fmt::format("the model {} needs {} bytes, and {}: unload another one first",
                              problem_.models[std::size_t(model)].name,
                              problem_.models[std::size_t(model)].memory_bytes,
                              device.empty() ? "no device has room for it"
                                             : device + " has no room for it, or has it"),
                  "memory_bytes", 409));
}

asio::awaitable<ApiResult<std::string>> Fleet::load(Loading asked) {
  const auto model = prepare(asked);
  if (!model)
    co_return refuse(model.error());
  const auto group = room_for(*model, asked.device);
  if (!group)
    co_return refuse(group.error());
  models_[std::size_t(*model)].wanted = true;
  models_[std::size_t(*model)].failure.reset();
  wanted_.groups[std::size_t(*group)].add(*model);
  co_await settled();
  if (replicas_.contains({*group, *model}))
    co_return devices_of(*group);
  co_return refuse(absent(*model));
}

asio::awaitable<ApiResult<void>> Fleet::unload(std::string name, std::string device) {
  const auto model = find(name);
  bool there = false;
  for (std::size_t g = 0; model && g < wanted_.groups.size(); ++g)
    if (wanted_.groups[g].hosts(*model) && (device.empty() || devices_of(int(g)) == device)) {
      wanted_.groups[g].remove(*model);
      there = true;
    }
  if (!there)
    co_return refuse(
        device.empty() || !model
            ? unknown(name)
            : cannot_load(fmt::format("the model {} is not on {}", name, device), "device", 404));
  const auto hosts = [&](const Group& group) { return group.hosts(*model); };
  models_[std::size_t(*model)].wanted =
      std::any_of(wanted_.groups.begin(), wanted_.groups.end(), hosts);
  co_await settled();
  co_return ApiResult<void>();
}

asio::awaitable<void> Fleet::follow_load() {
  while (!stopping_) {
    const auto next = Clock::now() + options_.replan;
    while (!stopping_ && Clock::now() < next)
      co_await changed(next);
    if (!stopping_ && !moving_)
      co_await replan();
  }
}

/// A plan for what came since the last one, followed where much is gained.
asio::awaitable<void> Fleet::replan() {
  std::vector<int> models;
  std::vector<int> numbers(models_.size(), -1); // in the plan
  placement::Problem problem{{}, problem_.devices};
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
  const placement::Placement before = wanted_;
  const auto limit = Clock::now() + options_.replan / 2;
  placement::PlanOptions how;
  how.bounds = {1, 1}; // each group is a device
  how.stop = [&] { return stopping_ || Clock::now() >= limit; };
  placement::Selection found;
  placement::Score now;
  co_await run_on(planner_, executor_, [&] {
    now = score(simulate(problem, renumbered(before, numbers), workload));
    found = placement::plan(problem, workload, how);
    found.placement = placement::with_all_models(problem, std::move(found.placement));
    found.score = score(simulate(problem, found.placement, workload));
  });
  if (stopping_ || moving_ || wanted_ != before || !placement::worth_moving(now, found.score) ||
      !adopt(models, renumbered(found.placement, models)))
    co_return;
  moves_["replan"] += 1;
  log_.info("replanned", {{"requests", workload.arrivals.size()},
                          {"attainment", now.attainment},
                          {"planned", found.score.attainment}});
  co_await settle();
}

/// What was found becomes what is wanted, unless a model would lose its last place.
bool Fleet::adopt(const std::vector<int>& models, const placement::Placement& found) {
  placement::Placement next = wanted_;
  for (Group& group : next.groups)
    for (const int model : models)
      group.remove(model);
  for (const Group& from : found.groups)
    for (Group& group : next.groups)
      if (group.devices == from.devices)
        for (const int model : from.models)
          group.add(model);
  for (const int model : models) {
    const auto hosts = [&](const Group& group) { return group.hosts(model); };
    if (std::none_of(next.groups.begin(), next.groups.end(), hosts))
      return false;
  }
  wanted_ = placement::nearest(held_, std::move(next));
  return true;
}

} // namespace paceline::apps::serve
