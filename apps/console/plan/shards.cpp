#include "apps/console/plan/shards.hpp"

#include "gpu/device.hpp"
#include "models/checkpoint/source.hpp"
#include "models/shards.hpp"
#include "models/sources.hpp"

#include <algorithm>

namespace paceline::apps::plan {
namespace {

/// Whether the checkpoint can be divided, in whole blocks, so that --weights may be given.
bool divides(const std::string& checkpoint, int shards) {
  const auto source = models::open_checkpoint(checkpoint, "target");
  const auto config = source.and_then([](const auto& found) { return found->config(); });
  return !config || models::check_shards(checkpoint, *config, true, shards);
}

} // namespace

bool serves_shards(std::span<const std::string> devices, int shards) {
  if (shards == 1)
    return true;
  const auto all = [&](gpu::DeviceKind kind) {
    return std::ranges::all_of(devices, [&](const std::string& device) {
      const auto name = gpu::parse_device(device);
      return name && name->kind == kind;
    });
  };
  return all(gpu::DeviceKind::cpu) || all(gpu::DeviceKind::sim);
}

int shards_served(const Input& input, int most) {
  const auto served = [&](int shards) {
    return std::ranges::all_of(input.checkpoints, [&](const std::string& checkpoint) {
      return checkpoint.empty() ||
             (serves_shards(input.device_names, shards) && divides(checkpoint, shards));
    });
  };
  while (most > 1 && !served(most))
    most /= 2;
  return most;
}

} // namespace paceline::apps::plan
