// Converts stored numbers to f32.
#pragma once

#include "gpu/tensor.hpp"

#include <cstddef>
#include <vector>

namespace paceline::models {

/// Returns n numbers of `dtype` as f32. source: aligned to its dtype.
std::vector<float> widen(gpu::DType dtype, const void* source, std::size_t n);

} // namespace paceline::models
