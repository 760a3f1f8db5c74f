// Bounds of the device layer (docs/limits.md lists all layers').
#pragma once

#include <chrono>
#include <cstddef>

namespace paceline::gpu::limits {

/// Threads of one CPU lane; a larger request is refused.
inline constexpr int lane_threads_max = 256;
/// Steps queued on one lane; `submit` refuses more and the owner treats the lane as failed.
inline constexpr std::size_t lane_queue_max = 64;
/// An idle lane spins this long before it sleeps.
inline constexpr std::chrono::microseconds lane_spin{50};

} // namespace paceline::gpu::limits
