// What weights are made of, whatever device they lie on.
#pragma once

#include "gpu/tensor.hpp"

#include <vector>

namespace paceline::gpu {

/// The formats of a weight's outputs, from the first on, each run of alike ones once. Mostly it is
/// one; matrices of unlike blocks are packed together as they are (Device::pack).
std::vector<WeightFormat> formats_of(const Weight& weight);

} // namespace paceline::gpu
