// Bounds of the placement layer (docs/limits.md lists all layers').
#pragma once

#include <cstddef>

namespace paceline::placement::limits {

inline constexpr int models_max = 1024;  ///< Of one plan; more are refused.
inline constexpr int devices_max = 1024; ///< Likewise.
inline constexpr int pipeline_max = 64;  ///< Stages of a group; more are refused.
inline constexpr int tensor_max = 16;    ///< Devices that share a stage; more are refused.
/// Requests of one simulated run; a longer trace, or more of rate times seconds, is refused.
inline constexpr std::size_t arrivals_max = 20'000'000;
/// Up to so many devices of a bucket groups of different shapes are tried beside each other; beyond
/// it all groups of a bucket have one shape.
inline constexpr int mixed_devices_max = 8;
/// Requests that a controller remembers, to plan anew by; older ones are forgotten.
inline constexpr std::size_t observed_max = 100'000;
/// Buckets of models by latency, at most.
inline constexpr int buckets_max = 3;

} // namespace paceline::placement::limits
