#include "placement/placement.hpp"

#include "placement/cost.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace paceline::placement {
namespace {

Result<void> check_shape(const Group& group, std::size_t index) {
  if (group.shape.pipeline < 1 || group.shape.tensor < 1 ||
      int(group.devices.size()) != group.shape.devices())
    return fail(ErrorCode::invalid_argument,
                fmt::format("group {} of shape {} has {} devices", index, to_string(group.shape),
                            group.devices.size()),
                "give pipeline times tensor devices");
  return {};
}

Result<void> check_devices(const Group& group, std::size_t index, std::vector<bool>& taken) {
  for (const int device : group.devices) {
    if (device < 0 || device >= int(taken.size()))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("group {} names device {} of {}", index, device, taken.size()),
                  "count devices from 0");
    if (taken[std::size_t(device)])
      return fail(ErrorCode::invalid_argument,
                  fmt::format("device {} is in group {} and in another one", device, index),
                  "give each device to one group");
    taken[std::size_t(device)] = true;
  }
  return {};
}

Result<void> check_models(const Group& group, std::size_t index, const Problem& problem) {
  for (std::size_t i = 0; i < group.models.size(); ++i)
    if (group.models[i] < 0 || group.models[i] >= int(problem.models.size()) ||
        (i > 0 && group.models[i] <= group.models[i - 1]))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("group {} has a model that is not there, or one twice", index),
                  "name each model once");
  if (const auto bytes = bytes_per_device(group, problem); bytes > problem.devices.memory_bytes)
    return fail(ErrorCode::invalid_argument,
                fmt::format("group {} needs {} bytes of each device, which has {}", index, bytes,
                            problem.devices.memory_bytes),
                "place fewer models on it, or give it more devices");
  return {};
}

} // namespace

bool Group::hosts(int model) const {
  return std::binary_search(models.begin(), models.end(), model);
}

bool Placement::hosts(int model) const {
  return std::any_of(groups.begin(), groups.end(),
                     [&](const Group& group) { return group.hosts(model); });
}

void Group::add(int model) {
  models.insert(std::lower_bound(models.begin(), models.end(), model), model);
}

void Group::remove(int model) {
  std::erase(models, model);
}

std::uint64_t bytes_per_device(const Group& group, const Problem& problem) {
  std::uint64_t bytes = 0;
  for (const int model : group.models)
    bytes += bytes_per_device(problem.models[std::size_t(model)], group.shape);
  return bytes;
}

bool has_room(const Group& group, int model, const Problem& problem) {
  return bytes_per_device(group, problem) +
             bytes_per_device(problem.models[std::size_t(model)], group.shape) <=
         problem.devices.memory_bytes;
}

bool has_room(const Placement& placement, std::size_t group, int model, const Problem& problem) {
  const Group& own = placement.groups[group];
  return std::ranges::all_of(own.devices, [&](int device) {
    std::uint64_t bytes = bytes_per_device(problem.models[std::size_t(model)], own.shape);
    for (const Group& other : placement.groups)
      if (std::ranges::find(other.devices, device) != other.devices.end())
        bytes += bytes_per_device(other, problem);
    return bytes <= problem.devices.memory_bytes;
  });
}

bool in_time(Shape shape, int model, const Problem& problem) {
  const Model& one = problem.models[std::size_t(model)];
  const auto stages = stage_seconds(one, shape, problem.devices);
  return std::accumulate(stages.begin(), stages.end(), 0.0) <= one.objective_seconds + 1e-9;
}

Placement empty_groups(const std::vector<Shape>& shapes, int first) {
  Placement placement;
  for (const Shape shape : shapes) {
    Group group{std::vector<int>(std::size_t(shape.devices())), shape, {}};
    std::iota(group.devices.begin(), group.devices.end(), first);
    first += shape.devices();
    placement.groups.push_back(std::move(group));
  }
  return placement;
}

Result<void> check(const Placement& placement, const Problem& problem) {
  std::vector<bool> taken(std::size_t(problem.devices.count));
  for (std::size_t i = 0; i < placement.groups.size(); ++i) {
    const Group& group = placement.groups[i];
    auto sound = check_shape(group, i)
                     .and_then([&] { return check_devices(group, i, taken); })
                     .and_then([&] { return check_models(group, i, problem); });
    if (!sound)
      return sound;
  }
  return {};
}

} // namespace paceline::placement
