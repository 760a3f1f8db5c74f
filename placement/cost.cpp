#include "placement/cost.hpp"

#include <fmt/format.h>

namespace paceline::placement {

std::string to_string(Shape shape) {
  return fmt::format("{}x{}", shape.pipeline, shape.tensor);
}

std::vector<double> stage_seconds(const Model& model, Shape shape, const Devices& devices) {
  if (const auto known = model.measured.find(shape); known != model.measured.end())
    return known->second;
  const double kept = shape.tensor > 1 ? devices.tensor_overhead : 0;
  const double all = model.latency_seconds * (kept + (1 - kept) / shape.tensor) +
                     devices.hop_seconds * (shape.pipeline - 1);
  std::vector<double> stages(std::size_t(shape.pipeline), all / shape.pipeline);
  if (shape.pipeline > 1) {
    const double extra = stages.back() * devices.imbalance;
    for (double& stage : stages)
      stage -= extra / (shape.pipeline - 1);
    stages.back() = all / shape.pipeline + extra;
  }
  return stages;
}

std::uint64_t bytes_per_device(const Model& model, Shape shape) {
  const auto devices = std::uint64_t(shape.devices());
  return (model.memory_bytes + devices - 1) / devices;
}

} // namespace paceline::placement
