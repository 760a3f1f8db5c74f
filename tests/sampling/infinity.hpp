#pragma once

#include <limits>

namespace paceline::testing {

constexpr float infinity = std::numeric_limits<float>::infinity();

} // namespace paceline::testing
