// Ways to divide devices and models, before anything is placed.
#pragma once

#include "placement/placement.hpp"
#include "placement/workload.hpp"

#include <vector>

namespace paceline::placement {

/// Largest shapes that a search tries.
struct ShapeBounds {
  int pipeline = 8;
  int tensor = 4;
};

/// Shapes of groups that use `devices` devices: all of one shape (powers of two, of those in which
/// some model fits and is in time), with smaller pipelines in what is left over; of a few devices
/// also every mix of shapes. 1x1 alone is the first.
std::vector<std::vector<Shape>> layouts(const Problem& problem, int devices, ShapeBounds bounds);

/// Models that share devices with no others, by indices.
using Bucket = std::vector<int>;

/// Ways to divide the models by latency, so that short requests need not wait behind long ones: cut
/// where neighbouring latencies differ most. The first has one bucket.
std::vector<std::vector<Bucket>> bucketings(const Problem& problem);

/// Ways to give each bucket at least one of `devices`: in proportion to what it is asked to
/// compute, and some devices more or fewer. None if there are too few.
std::vector<std::vector<int>> shares(const Problem& problem, const Workload& workload,
                                     const std::vector<Bucket>& buckets, int devices);

} // namespace paceline::placement
