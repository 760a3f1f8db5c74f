// Models that an operator loads and unloads.
#include "apps/server/fleet.hpp"

#include <algorithm>
#include <fmt/format.h>

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

} // namespace

/// Returns the model's number. If the model is known, whatever the request does not name stays as
/// it was.
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
  if (changes && held_.hosts(*model))
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

/// Returns the group with the most room among those that may host the model.
ApiResult<int> Fleet::room_for(int model, const std::string& device) const {
  std::optional<int> best;
  std::uint64_t least = 0;
  bool named = false;
  for (const std::size_t g : planned_) {
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
  co_return refuse(absent(*model, true));
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
  models_[std::size_t(*model)].wanted = wanted_.hosts(*model);
  co_await settled();
  co_return ApiResult<void>();
}

} // namespace paceline::apps::serve
