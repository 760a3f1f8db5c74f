#include "placement/cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace paceline::placement {
namespace {

/// Returns the growth of a batch of that size, which may lie between whole numbers.
double grown(const std::vector<double>& growth, double size) {
  if (size <= 1)
    return 1;
  const auto doublings = std::min(std::size_t(std::log2(size)), growth.size() - 1);
  const double low = doublings == 0 ? 1 : growth[doublings - 1];
  const double share = size / double(std::size_t(1) << doublings) - 1;
  return low + (growth[doublings] - low) * share;
}

} // namespace

std::string to_string(Shape shape) {
  return fmt::format("{}x{}", shape.pipeline, shape.tensor);
}

std::vector<double> stage_seconds(const Model& model, Shape shape, const Devices& devices) {
  if (const auto known = model.measured.find(shape); known != model.measured.end())
    return known->second.seconds;
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

std::vector<double> growth_in(Shape shape, const Model& model) {
  std::vector<double> growth = model.growth;
  const std::size_t most = (std::size_t(1) << growth.size()) / std::size_t(shape.pipeline);
  growth.resize(most > 1 ? std::size_t(std::bit_width(most)) - 1 : 0);
  return growth;
}

double least_seconds(const StageCosts& costs) {
  const double slowest = *std::ranges::max_element(costs.seconds);
  return costs.growth.empty()
             ? slowest
             : slowest * costs.growth.back() / double(std::size_t(1) << costs.growth.size());
}

StageCosts stage_costs(const Model& model, Shape shape, const Devices& devices) {
  if (const auto known = model.measured.find(shape); known != model.measured.end())
    return known->second;
  return {stage_seconds(model, shape, devices), growth_in(shape, model)};
}

bool side_by_side(const Problem& problem) {
  return problem.devices.contention != 1 ||
         std::ranges::any_of(problem.models, [](const Model& model) {
           return !model.growth.empty() || std::ranges::any_of(model.measured, [](const auto& one) {
             return !one.second.growth.empty();
           });
         });
}

Pace::Pace(const StageCosts& costs) {
  const std::size_t stages = costs.seconds.size();
  const std::size_t most = stages << costs.growth.size();
  const double all = std::accumulate(costs.seconds.begin(), costs.seconds.end(), 0.0);
  const double slowest = *std::ranges::max_element(costs.seconds);
  for (std::size_t n = 1; n <= most; ++n) {
    const double growth = grown(costs.growth, double(n) / double(stages));
    const double at_slowest = double(std::min(n, stages)) * slowest;
    seconds_.push_back(growth * std::max(all, at_slowest));
    loads_.push_back(at_slowest / std::max(all, at_slowest));
  }
}

std::uint64_t bytes_per_device(const Model& model, Shape shape) {
  const auto devices = std::uint64_t(shape.devices());
  return (model.memory_bytes + devices - 1) / devices;
}

} // namespace paceline::placement
