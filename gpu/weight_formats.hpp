// The formats of weights, whatever device they lie on.
#pragma once

#include "gpu/tensor.hpp"

#include <vector>

namespace paceline::gpu {

/// Returns the formats of a weight's outputs, from the first on, each run of equal ones once. Most
/// weights have one; matrices of different block formats may be packed together (Device::pack).
std::vector<WeightFormat> formats_of(const Weight& weight);

} // namespace paceline::gpu
