// The Gumbel-max draw of the rule `coupled`, vectorised like row_kernels.hpp.
#pragma once

#include "sampling/philox.hpp"

#include <cstdint>
#include <span>

namespace paceline::sampling::row {

/// Returns the argmin of exponential(key, token) / p over tokens with p > 0, the lowest token among
/// equals, or -1 if there is none. Rows have at most 2^31 - 1 tokens.
std::int32_t draw_gumbel_max(std::span<const float> p, const DrawKey& key);

} // namespace paceline::sampling::row
