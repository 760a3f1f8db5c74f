// Small problems for tests.
#pragma once

#include "placement/model.hpp"
#include "placement/placement.hpp"
#include "placement/workload.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace paceline::testing {

/// Seconds of AlpaServe's BERT-6.7B on one device, as its published code has them.
inline constexpr double bert_6b7_seconds = 0.39624744;

inline placement::Problem alike(int models, double latency, int devices,
                                std::uint64_t memory_per_device = 14,
                                std::uint64_t memory_per_model = 14) {
  placement::Problem problem;
  for (int i = 0; i < models; ++i)
    problem.models.push_back({"m" + std::to_string(i), latency, memory_per_model, HUGE_VAL, {}});
  problem.devices.count = devices;
  problem.devices.memory_bytes = memory_per_device;
  return problem;
}

/// Each of two models on a device of its own, or both in two stages over both.
inline placement::Placement simple_pair() {
  return {{{{0}, {1, 1}, {0}}, {{1}, {1, 1}, {1}}}};
}
inline placement::Placement pipelined_pair() {
  return {{{{0, 1}, {2, 1}, {0, 1}}}};
}

} // namespace paceline::testing
