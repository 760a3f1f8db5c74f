// Bounds of the messages layer (docs/limits.md lists all layers').
#pragma once

#include "sampling/limits.hpp"

namespace paceline::messages::limits {

/// Positions a chain remembers. A draft may run at most K + (K + 1) tokens past the frontier, and
/// after a hit as far past the next one before the last window has been read.
inline constexpr int chain_positions = 4 * (sampling::limits::window_max + 1);

/// Bits of a draw's attempt number that hold the frontier's length; the others number forks.
/// Contexts are shorter (models/limits.hpp).
inline constexpr int frontier_bits = 24;

} // namespace paceline::messages::limits
