// Bounds of the execution layer (docs/limits.md lists all layers').
#pragma once

#include <cstddef>

namespace paceline::execution::limits {

/// So many calls of a Drafter may fail in a row before it is disabled; so many that succeed make up
/// for one. Where more than one in nine fails, it is disabled in the end, too.
inline constexpr int drafter_failures_max = 16;
inline constexpr int drafter_successes_per_failure = 8;

/// Between two stages of a target there may be the rows of so many passes for each of its stages:
/// those under way, at most two, and one that a lane that stood still has not let go of. One more
/// fails.
inline constexpr std::size_t passes_per_stage = 3;

/// Logits of blocks that a draft's pass writes. More sequences than that draw in the next pass.
inline constexpr std::size_t block_logits_bytes = 256u << 20;

} // namespace paceline::execution::limits
