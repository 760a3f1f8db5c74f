#include "actors/option_check.hpp"

#include "actors/engine_fields.hpp"
#include "actors/limits.hpp"
#include "actors/other_machines.hpp"
#include "gpu/device.hpp"
#include "gpu/mx.hpp"
#include "gpu/operations.hpp"
#include "models/mtp.hpp"
#include "models/synthetic/scripted_options.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace paceline::actors {
namespace {

Result<void> check_time(const char* field, std::chrono::milliseconds value) {
  if (value >= std::chrono::milliseconds(0) && value <= limits::fault_time_max)
    return {};
  return fail(ErrorCode::invalid_argument, fmt::format("{} is {} ms", field, value.count()),
              fmt::format("give a time up to {} ms", limits::fault_time_max.count()));
}

Result<void> check(const FaultOptions& o) {
  constexpr base::NumberRange restarts{0, limits::restarts_max_max, true};
  for (const auto& result :
       {base::check_number("EngineOptions::faults.restarts_max", restarts, o.restarts_max),
        base::check_number("EngineOptions::faults.recomputations_max", restarts,
                           o.recomputations_max),
        check_time("EngineOptions::faults.restart_pause", o.restart_pause),
        check_time("EngineOptions::faults.restart_pause_max", o.restart_pause_max),
        check_time("EngineOptions::faults.restarts_forgotten", o.restarts_forgotten),
        check_time("EngineOptions::faults.stall_patience", o.stall_patience),
        check_time("EngineOptions::faults.heartbeat", o.heartbeat),
        check_time("EngineOptions::faults.stage_patience", o.stage_patience)})
    if (!result)
      return result;
  if (o.heartbeat < limits::heartbeat_min)
    return fail(ErrorCode::invalid_argument,
                fmt::format("EngineOptions::faults.heartbeat is {} ms", o.heartbeat.count()),
                fmt::format("give at least {} ms", limits::heartbeat_min.count()));
  if (o.restart_pause > o.restart_pause_max)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("EngineOptions::faults.restart_pause is {} ms", o.restart_pause.count()),
        "give at most EngineOptions::faults.restart_pause_max");
  return {};
}

Result<void> check_format(const char* field, const std::optional<WeightFormat>& format) {
  if (!format || gpu::is_mx(*format))
    return {};
  return fail(ErrorCode::invalid_argument, fmt::format("{} is {}", field, to_string(*format)),
              "give a microscaling format, such as mxfp6; EngineOptions::dtype is for others");
}

bool shares_cores(const gpu::DeviceName& a, const gpu::DeviceName& b) {
  return a.cores.empty() || b.cores.empty() ||
         std::ranges::find_first_of(a.cores, b.cores) != a.cores.end();
}

/// Whether two lanes on these devices would disturb each other. A simulated device is a different
/// one each time it is named.
bool same_device(const gpu::DeviceName& a, const gpu::DeviceName& b) {
  if (a.kind != b.kind || a.kind == gpu::DeviceKind::sim)
    return false;
  return a.kind == gpu::DeviceKind::cpu ? shares_cores(a, b) : a.index == b.index;
}

/// A model's devices and their division, with the names of the options that say so.
struct Division {
  const std::vector<std::string>& devices;
  int stages = 0; ///< 0: as the devices say.
  int shards = 1; ///< Of each stage.
  std::string_view model;
  std::string_view prefix; ///< Of the options' names: "EngineOptions::draft_".
};

Result<void> check_apart(const Division& of) {
  const std::vector<std::string>& devices = of.devices;
  std::vector<gpu::DeviceName> names;
  for (const std::string& device : devices) {
    if (is_node_device(device)) {
      gpu::DeviceName& own = names.emplace_back(); // It is the node's device.
      own.kind = gpu::DeviceKind::sim;
      own.profile = device;
      continue;
    }
    auto name = gpu::parse_device(device);
    if (!name)
      return tl::unexpected(name.error());
    for (std::size_t i = 0; i < names.size(); ++i)
      if (same_device(names[i], *name))
        return fail(ErrorCode::invalid_argument,
                    fmt::format("{}devices has {} and {}, which are not two devices", of.prefix,
                                devices[i], device),
                    "give each stage and shard a device or cores of its own");
    names.push_back(std::move(*name));
  }
  return {};
}

/// Checks the options that go with stages on other machines, of which there is at least one.
Result<void> check_nodes(const EngineOptions& o, const std::vector<std::string>& devices) {
  const auto wrong = [](ErrorCode code, std::string what, std::string how) {
    return fail(code, std::move(what), std::move(how));
  };
  const auto first = std::ranges::find_if(devices, is_node_device);
  if (first == devices.begin())
    return wrong(ErrorCode::invalid_argument,
                 fmt::format("EngineOptions::devices begins with {}, and prompts and drafts are "
                             "here",
                             *first),
                 "name a device of this machine first: it has the embedding and some layers");
  if (o.tensor_parallel_size > 1)
    return wrong(ErrorCode::unsupported,
                 fmt::format("EngineOptions::devices has {}, and "
                             "EngineOptions::tensor_parallel_size is {}",
                             *first, o.tensor_parallel_size),
                 "leave it out: layers on another machine are not divided into shards");
  if (o.prefill == Prefill::fast)
    return wrong(
        ErrorCode::unsupported,
        fmt::format("EngineOptions::devices has {}, and EngineOptions::prefill is fast", *first),
        "leave it out: a node reads prompts in the invariant way");
  if (o.node_rows != NumberFormat::f32 && o.node_rows != NumberFormat::bf16)
    return wrong(ErrorCode::invalid_argument,
                 "EngineOptions::node_rows is a format that no rows cross in", "give f32 or bf16");
  if (o.virtual_time)
    return wrong(ErrorCode::invalid_argument,
                 fmt::format("EngineOptions::devices has {}, where time is not virtual", *first),
                 "give a sim device");
  if (models::is_scripted(o.target))
    return wrong(ErrorCode::unsupported,
                 fmt::format("EngineOptions::devices has {}, and EngineOptions::target is {}",
                             *first, o.target),
                 "give a checkpoint: a rule has no layers");
  if (!o.reserve_device.empty() && !is_node_device(o.reserve_device))
    return wrong(ErrorCode::unsupported,
                 fmt::format("EngineOptions::devices has {}, and EngineOptions::reserve_device is "
                             "{}",
                             *first, o.reserve_device),
                 "give the reserve as a node, too: paceline node --listen 127.0.0.1:7001 makes one "
                 "of this machine");
  if (std::ranges::find(devices, o.reserve_device) != devices.end())
    return wrong(
        ErrorCode::invalid_argument,
        fmt::format("EngineOptions::reserve_device is {}, where a stage is", o.reserve_device),
        "give another node");
  return {};
}

Result<void> wrong(std::string what, std::string how) {
  return fail(ErrorCode::invalid_argument, std::move(what), std::move(how));
}

/// Checks that the devices are so many stages of so many shards.
Result<void> check_division(const Division& of) {
  const std::size_t devices = of.devices.size();
  if (devices > limits::stages_max)
    return wrong(fmt::format("{}devices has {} devices", of.prefix, devices),
                 fmt::format("give at most {}", limits::stages_max));
  if (of.shards < 1 || int(devices) % of.shards != 0)
    return wrong(fmt::format("{0}tensor_parallel_size is {1}, and {2} has {3} in {0}devices",
                             of.prefix, of.shards, of.model, devices),
                 "give so many devices for each stage, or leave it out");
  if (of.stages != 0 && of.stages != int(devices) / of.shards)
    return wrong(fmt::format("{0}pipeline_parallel_size is {1}, and {2} has {3} in {0}devices{4}",
                             of.prefix, of.stages, of.model, devices,
                             of.shards > 1 ? fmt::format(", {} for each stage", of.shards) : ""),
                 of.shards > 1 ? "give a device for each shard of each stage, or leave it out"
                               : "give as many devices as stages, or leave it out");
  return devices > 1 ? check_apart(of) : Result<void>();
}

Result<void> check_draft_devices(const EngineOptions& o) {
  const Division draft{o.draft_devices, o.draft_pipeline_parallel_size,
                       o.draft_tensor_parallel_size, "the draft", "EngineOptions::draft_"};
  const std::vector<std::string>& devices = draft.devices;
  if (devices.empty() && (draft.stages > 1 || draft.shards > 1))
    return wrong("the draft is divided, and EngineOptions::draft_devices is empty",
                 "name the draft's devices");
  if (devices.empty())
    return {};
  if (devices.size() > 1 && std::ranges::any_of(devices, is_node_device))
    return fail(ErrorCode::unsupported,
                fmt::format("EngineOptions::draft_devices has {} devices, and one is a node's",
                            devices.size()),
                "give the node alone, or devices of this machine");
  if (draft.shards > 1 && draft.shards < int(devices.size()))
    return fail(ErrorCode::unsupported,
                fmt::format("EngineOptions::draft_tensor_parallel_size is {} of {} devices",
                            draft.shards, devices.size()),
                "give the draft stages or shards, and not both");
  return check_division(draft);
}

Result<void> check_stages(const EngineOptions& o) {
  const std::vector<std::string>& devices = o.devices;
  if (devices.empty())
    return wrong("EngineOptions::devices is empty", "give at least one device, such as cpu");
  if (auto divided = check_division({devices, o.pipeline_parallel_size, o.tensor_parallel_size,
                                     "the target", "EngineOptions::"});
      !divided)
    return divided;
  if (std::ranges::any_of(devices, is_node_device)) {
    if (auto nodes = check_nodes(o, devices); !nodes)
      return nodes;
  } else if (is_node_device(o.reserve_device)) {
    return wrong(fmt::format("EngineOptions::reserve_device is {}, and no stage of the target is "
                             "on a node",
                             o.reserve_device),
                 "give a device of this machine: all of the target would go there");
  } else if (devices.size() > 1 && !o.reserve_device.empty()) {
    return wrong("EngineOptions::reserve_device with several EngineOptions::devices",
                 "leave it out: a target in stages or shards moves nowhere");
  }
  return {};
}

/// Returns what "auto" means. A head needs the target on one device, which it reads there.
std::string default_draft(const EngineOptions& o) {
  if (o.target == "demo")
    return "demo";
  const bool elsewhere = o.devices.size() > 1 || o.draft_devices.size() > 1 || drafts_on_node(o) ||
                         !o.reserve_device.empty();
  return !elsewhere && models::brings_mtp(o.target) ? models::mtp_draft : "suffix";
}

/// Checks that there is one draft, or a model and a look-up that knows how likely it is to be
/// right, which an n-gram does not.
Result<void> check_drafters(const EngineOptions& o) {
  const auto names = drafter_names(o);
  const bool has_none = std::ranges::count(o.drafters, "none") > 0;
  const bool both = names.size() == 2 && names.front() == "suffix" && names.back() != "suffix" &&
                    names.back() != "ngram" && !o.custom_drafter;
  if ((names.size() < 2 && o.drafters.size() < 2) || (both && !has_none))
    return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("EngineOptions::drafters are {}{}", fmt::join(o.drafters, " and "),
                          o.custom_drafter ? " with EngineOptions::custom_drafter" : ""),
              "give one, or suffix and a model");
}

} // namespace

std::string last_own_device(const EngineOptions& o) {
  return *std::ranges::find_if_not(o.devices.rbegin(), o.devices.rend(), is_node_device);
}

bool drafts_on_node(const EngineOptions& o) {
  return o.speculation != SpeculationMode::off &&
         std::ranges::any_of(o.draft_devices, is_node_device);
}

bool needs_other_machines(const EngineOptions& o) {
  return drafts_on_node(o) || std::ranges::any_of(o.devices, is_node_device);
}

std::vector<std::string> drafter_names(const EngineOptions& o) {
  std::vector<std::string> names = o.drafters;
  for (std::string& name : names)
    if (name == "auto")
      name = default_draft(o);
  std::erase_if(names, [](const std::string& name) { return name.empty() || name == "none"; });
  std::ranges::stable_partition(names, [](const std::string& name) { return name == "suffix"; });
  return names;
}

std::string draft_name(const EngineOptions& o) {
  const auto names = drafter_names(o);
  return names.empty() ? "" : names.back();
}

Result<void> check_options(const EngineOptions& o) {
  for (const auto& field : engine_numbers)
    if (auto known = base::check(field, o); !known)
      return known;
  for (const auto& result :
       {check_time("EngineOptions::time_between_tokens", o.time_between_tokens),
        check_format("EngineOptions::weights", o.weights),
        check_format("EngineOptions::draft_weights", o.draft_weights),
        check_format("EngineOptions::head_weights", o.head_weights)})
    if (!result)
      return result;
  if (auto stages = check_stages(o); !stages)
    return stages;
  if (auto devices = check_draft_devices(o); !devices)
    return devices;
  if (auto drafters = check_drafters(o); !drafters)
    return drafters;
  if (o.prefill == Prefill::fast && o.prefill_chunk < gpu::fast_chunk)
    return fail(ErrorCode::invalid_argument,
                fmt::format("EngineOptions::prefill_chunk is {} with EngineOptions::prefill = fast",
                            o.prefill_chunk),
                fmt::format("give at least {}", gpu::fast_chunk));
  return check(o.faults);
}

} // namespace paceline::actors
