#include "apps/server/serve_placement.hpp"

#include "apps/console/input.hpp"
#include "apps/console/plan/file.hpp"
#include "apps/console/plan/shards.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace paceline::apps {
namespace {

using plan::PlacementFile;

/// Checks whether an engine, whatever its model, can be opened on this group; only this function
/// knows that. The shards of a stage are on devices of one kind that has them.
Result<void> check_group(const PlacementFile::Group& group) {
  if (plan::serves_shards(group.devices, group.shape.tensor))
    return {};
  return fail(
      ErrorCode::unsupported,
      fmt::format("the group of {} has the shape {}, and shards are for cpu devices alone or "
                  "sim devices alone",
                  fmt::join(group.devices, " and "), placement::to_string(group.shape)),
      "plan with --max-tensor 1");
}

template <class Names>
int index_in(const Names& names, const std::string& name) {
  return int(std::find(names.begin(), names.end(), name) - names.begin());
}

void add_model(serve::FleetPlan& plan, const PlacementFile::Model& from) {
  placement::Model model;
  model.name = from.name;
  model.latency_seconds = from.latency_seconds;
  model.memory_bytes = from.memory_bytes;
  model.objective_seconds = from.objective_seconds.value_or(HUGE_VAL);
  model.growth = from.batch_growth;
  plan.problem.models.push_back(std::move(model));
  plan.models.push_back(
      {from.name, from.checkpoint.empty() ? from.name : from.checkpoint, from.draft});
}

void add_group(serve::FleetPlan& plan, const PlacementFile::Group& from,
               const std::vector<std::string>& models) {
  placement::Group group{{}, from.shape, {}};
  for (const std::string& device : from.devices)
    group.devices.push_back(index_in(plan.devices, device));
  for (const PlacementFile::Hosted& hosted : from.models) {
    const int model = index_in(models, hosted.model);
    group.add(model);
    plan.problem.models[std::size_t(model)].measured[from.shape] = {hosted.stage_seconds,
                                                                    hosted.batch_growth};
  }
  plan.placement.groups.push_back(std::move(group));
}

/// Adds a group for each device that is in none.
void add_idle_devices(serve::FleetPlan& plan) {
  for (int device = 0; device < int(plan.devices.size()); ++device) {
    const auto& groups = plan.placement.groups;
    const bool used = std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
      return std::count(group.devices.begin(), group.devices.end(), device) > 0;
    });
    if (!used)
      plan.placement.groups.push_back({{device}, {1, 1}, {}});
  }
}

} // namespace

serve::OpenEngine engine_opener(EngineOptions common,
                                std::function<Result<Engine>(EngineOptions)> warm) {
  return [common = std::move(common), warm = std::move(warm)](
             const serve::FleetModel& model, const std::vector<std::string>& devices, int shards,
             std::uint64_t memory_bytes) -> Result<Engine> {
    EngineOptions own = common;
    own.target = model.checkpoint;
    if (!model.draft.empty())
      own.drafters = {model.draft};
    own.devices = devices;
    own.tensor_parallel_size = shards;
    own.memory_bytes = memory_bytes;
    return warm(std::move(own));
  };
}

Result<serve::FleetPlan> read_placement(const std::string& file,
                                        std::optional<std::uint64_t> device_memory) {
  const auto read = read_text({{}, file}).and_then([&](const std::string& text) {
    return plan::parse_placement(text, file);
  });
  if (!read)
    return tl::unexpected(read.error());
  serve::FleetPlan plan;
  plan.devices = read->devices;
  plan.problem.devices.count = int(plan.devices.size());
  plan.problem.devices.memory_bytes = device_memory.value_or(read->device_memory_bytes);
  plan.problem.devices.contention = read->contention;
  std::vector<std::string> models;
  for (const PlacementFile::Model& model : read->models) {
    models.push_back(model.name);
    add_model(plan, model);
  }
  for (const PlacementFile::Group& group : read->groups) {
    if (auto sound = check_group(group); !sound)
      return tl::unexpected(sound.error());
    add_group(plan, group, models);
  }
  add_idle_devices(plan);
  return placement::check(plan.placement, plan.problem).map([&] { return std::move(plan); });
}

} // namespace paceline::apps
