// What a model costs on a group of devices.
#pragma once

#include "placement/model.hpp"

#include <cstdint>
#include <vector>

namespace paceline::placement {

/// Seconds that a request takes in each stage of `shape`, measured or else computed from the
/// latency of one device: a tensor-parallel stage keeps the devices' `tensor_overhead`, each hop
/// between stages is borne by all of them alike, and one stage is slower than the mean by
/// `imbalance` (the overheads alpha and beta of Li et al. 2023, section 3.4).
std::vector<double> stage_seconds(const Model& model, Shape shape, const Devices& devices);

/// Bytes of the model on each device of such a group.
std::uint64_t bytes_per_device(const Model& model, Shape shape);

} // namespace paceline::placement
