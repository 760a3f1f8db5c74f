// Divides devices and models in all ways worth trying, before anything is placed.
#pragma once

#include "placement/placement.hpp"
#include "placement/workload.hpp"

#include <vector>

namespace paceline::placement {

/// The largest shapes that a search tries.
struct ShapeBounds {
  int pipeline = 8;
  int tensor = 4;
};

/// Returns shapes of groups that use `devices` devices: all of one shape (powers of two in which
/// some model fits and is in time), with smaller pipelines in what is left over; for few devices
/// also every mix of shapes. The first has 1x1 alone.
std::vector<std::vector<Shape>> layouts(const Problem& problem, int devices, ShapeBounds bounds);

/// Models that share devices with no others, by indices.
using Bucket = std::vector<int>;

/// Returns ways to divide the models by latency, so that short requests need not wait behind long
/// ones: cut where neighbouring latencies differ most. The first has one bucket.
std::vector<std::vector<Bucket>> bucketings(const Problem& problem);

/// Returns ways to give each bucket at least one of `devices`: in proportion to what it is asked to
/// compute, and some devices more or fewer. There are none if there are too few devices.
std::vector<std::vector<int>> shares(const Problem& problem, const Workload& workload,
                                     const std::vector<Bucket>& buckets, int devices);

} // namespace paceline::placement
