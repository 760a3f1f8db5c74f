// Computes what a model costs on a group of devices.
#pragma once

#include "placement/model.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::placement {

/// Returns the seconds that a request takes in each stage of `shape`, measured or else computed
/// from the latency of one device: a tensor-parallel stage keeps the devices' `tensor_overhead`,
/// all stages bear each hop between stages alike, and one stage is slower than the mean by
/// `imbalance` (the overheads alpha and beta of Li et al. 2023, section 3.4).
std::vector<double> stage_seconds(const Model& model, Shape shape, const Devices& devices);

/// Returns by how much stages of `shape` grow in batches if they do so as one device does, and as
/// many requests are under way in all of them as there.
std::vector<double> growth_in(Shape shape, const Model& model);
/// Returns what stages take for one request and for batches, measured or else computed.
StageCosts stage_costs(const Model& model, Shape shape, const Devices& devices);

/// Returns the seconds of the slowest stage for each request of the largest batch.
double least_seconds(const StageCosts& costs);

/// Says whether engines work side by side, each on several requests: some model is batched, or
/// models on the same devices slow each other. Otherwise a group answers one request at a time, in
/// the order of their arrival (Li et al. 2023).
bool side_by_side(const Problem& problem);

/// The pace of the requests of one model that are under way in an engine, by their number. With p
/// stages, n requests are in batches of n / p. In the time in which all of them get on by one
/// request, the slowest stage works on each batch once, and each batch passes all stages.
class Pace {
public:
  explicit Pace(const StageCosts& costs);

  /// Returns how many requests may be under way; more wait.
  std::size_t at_once() const { return seconds_.size(); }
  /// Returns the seconds of a request with n under way all the time. n: 1 to at_once().
  double seconds(std::size_t n) const { return seconds_[n - 1]; }
  /// Returns the share of that time in which the slowest stage works.
  double load(std::size_t n) const { return loads_[n - 1]; }

private:
  std::vector<double> seconds_;
  std::vector<double> loads_;
};

/// Returns the bytes of the model on each device of such a group.
std::uint64_t bytes_per_device(const Model& model, Shape shape);

} // namespace paceline::placement
