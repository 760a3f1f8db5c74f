// Computes what a model costs on a group of devices.
#pragma once

#include "placement/model.hpp"

#include <cstdint>
#include <vector>

namespace paceline::placement {

/// Returns the seconds that a request takes in each stage of `shape`, measured or else computed
/// from the latency of one device: a tensor-parallel stage keeps the devices' `tensor_overhead`,
/// all stages bear each hop between stages alike, and one stage is slower than the mean by
/// `imbalance` (the overheads alpha and beta of Li et al. 2023, section 3.4).
std::vector<double> stage_seconds(const Model& model, Shape shape, const Devices& devices);

/// Returns the bytes of the model on each device of such a group.
std::uint64_t bytes_per_device(const Model& model, Shape shape);

} // namespace paceline::placement
