// Describes what a placement is planned for: models, and the devices that they share.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace paceline::placement {

/// A shape says how a group of devices works on one request: stages one behind the other, each
/// spread over `tensor` devices.
struct Shape {
  int pipeline = 1;
  int tensor = 1;

  int devices() const { return pipeline * tensor; }
  auto operator<=>(const Shape&) const = default;
};

/// Returns "4x2" for four stages of two devices each.
std::string to_string(Shape shape);

/// What the stages of a group of some shape take.
struct StageCosts {
  std::vector<double> seconds; ///< Seconds of each stage for a request that is alone in it.
  /// By how much stages take longer for 2, 4, 8, ... requests together, at least the one before and
  /// at most twice that; straight lines between. Empty: one request at a time.
  std::vector<double> growth = {};
};

struct Model {
  std::string name;
  double latency_seconds = 0;     ///< Latency of one request on one device.
  std::uint64_t memory_bytes = 0; ///< Bytes of all its weights.
  /// Most seconds from a request's arrival to its end; a later one is worth nothing, and is
  /// refused.
  double objective_seconds = std::numeric_limits<double>::infinity();
  /// Costs of shapes that were measured; others are computed (cost.hpp).
  std::map<Shape, StageCosts> measured;
  /// StageCosts::growth on one device.
  std::vector<double> growth = {};
};

/// Devices of one kind.
struct Devices {
  int count = 1;
  std::uint64_t memory_bytes = 0; ///< Memory of each device.
  double hop_seconds = 0;         ///< Time to pass a request on from one stage to the next.
  /// Share of a latency that does not shrink when a stage is spread over several devices.
  double tensor_overhead = 0;
  /// Excess of the slowest stage over the mean one, as a share of the mean.
  double imbalance = 0;
  /// The factor by which a model that is busy slows each other one on the same devices, beyond
  /// taking its share of them.
  double contention = 1;
};

struct Problem {
  std::vector<Model> models;
  Devices devices;
};

} // namespace paceline::placement
