#include "apps/serve_placement.hpp"

#include "actors/option_check.hpp"
#include "apps/input.hpp"
#include "apps/plan/file.hpp"
#include "models/sources.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>

namespace paceline::apps {
namespace {

using plan::PlacementFile;

/// The one place that knows which groups an engine can be opened on.
Result<void> check_group(const PlacementFile::Group& group) {
  if (group.devices.size() == 1)
    return {};
  return fail(ErrorCode::unsupported,
              fmt::format("a group has the devices {}, and an engine runs on one of them",
                          fmt::join(group.devices, " and ")),
              "plan with --max-pipeline 1 --max-tensor 1");
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
    plan.problem.models[std::size_t(model)].measured[from.shape] = hosted.stage_seconds;
  }
  plan.placement.groups.push_back(std::move(group));
}

/// Devices that no group has, each as one.
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

/// In memory weights are packed for kernels: so much more than on disk is kept for that.
constexpr std::uint64_t packing_share = 8;
constexpr std::uint64_t packing_bytes = 1 << 20;

/// What the weights in a folder or a file take on disk.
std::uint64_t bytes_on_disk(const std::filesystem::path& path) {
  std::error_code failed;
  if (std::filesystem::is_regular_file(path, failed))
    return std::filesystem::file_size(path, failed);
  std::uint64_t sum = 0;
  for (std::filesystem::directory_iterator at(path, failed), end; !failed && at != end;
       at.increment(failed))
    if (const auto& kind = at->path().extension(); kind == ".safetensors")
      sum += at->file_size();
  return sum;
}

/// And in memory, at most; those that are quantized as they are loaded take less.
std::uint64_t bytes_in_memory(const std::filesystem::path& path) {
  const std::uint64_t bytes = bytes_on_disk(path);
  return bytes > 0 ? bytes + bytes / packing_share + packing_bytes : 0;
}

std::uint64_t weights_of(const std::string& name, const std::string& role) {
  const auto source = models::open_checkpoint(name, role);
  return bytes_in_memory(source ? (*source)->location() : name);
}

std::uint64_t weights_of(const EngineOptions& options) {
  const std::uint64_t target = weights_of(options.target, "target");
  const std::string draft = actors::draft_name(options);
  const std::string head = "eagle3:";
  if (draft.empty() || draft == "ngram")
    return target;
  if (draft == "suffix")
    return target + options.draft_memory_bytes;
  if (draft.starts_with("self:"))
    return target + target / 2; // formats of at most eight bits
  return target + (draft.starts_with(head) ? bytes_in_memory(draft.substr(head.size()))
                                           : weights_of(draft, "draft"));
}

tl::unexpected<Error> too_small(const EngineOptions& options, std::uint64_t memory_bytes,
                                std::uint64_t least) {
  return fail(ErrorCode::out_of_memory,
              fmt::format("{} may take {} bytes, and weights and drafts take {}", options.target,
                          memory_bytes, least),
              "give it more memory in the placement, for pages, too");
}

/// What an engine took, beside what it may.
Result<void> check_memory(const Engine& engine, const EngineOptions& options,
                          std::uint64_t memory_bytes) {
  std::uint64_t taken = engine.target().weight_bytes + options.kv_memory_bytes;
  if (const auto draft = engine.draft())
    taken += draft->weight_bytes - draft->shared_bytes;
  if (taken <= memory_bytes)
    return {};
  return too_small(options, memory_bytes, taken);
}

} // namespace

serve::OpenEngine engine_opener(EngineOptions common,
                                std::function<Result<Engine>(EngineOptions)> warm) {
  return [common = std::move(common), warm = std::move(warm)](
             const serve::FleetModel& model, const std::vector<std::string>& devices,
             std::uint64_t memory_bytes) -> Result<Engine> {
    EngineOptions own = common;
    own.target = model.checkpoint;
    own.draft = model.draft.empty() ? common.draft : model.draft;
    own.device = devices.front();
    const std::uint64_t weights = weights_of(own);
    if (weights + own.kv_memory_bytes >= memory_bytes)
      return too_small(own, memory_bytes, weights + own.kv_memory_bytes);
    if (own.kv_memory_bytes == 0)
      own.kv_memory_bytes = memory_bytes - weights;
    return warm(own).and_then([&](Engine&& engine) -> Result<Engine> {
      if (auto fits = check_memory(engine, own, memory_bytes); !fits)
        return tl::unexpected(fits.error());
      return std::move(engine);
    });
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
