// The chi-square test as tests use it.
#pragma once

#include "sampling/chi_square.hpp"

namespace paceline::testing {

using sampling::chi_square;
using sampling::ChiSquare;

/// Every statistical check asks for a p-value above this. A test program makes fewer than three
/// hundred such checks, so that it alarms falsely for fewer than three choices of seeds in a
/// million.
inline constexpr double false_alarm = 1e-8;

} // namespace paceline::testing
