// Bounds of the placement layer (docs/limits.md lists all layers').
#pragma once

#include <cstddef>

namespace paceline::placement::limits {

inline constexpr int models_max = 1024;  ///< Models of one plan; more are refused.
inline constexpr int devices_max = 1024; ///< Devices of one plan; more are refused.
inline constexpr int pipeline_max = 64;  ///< Stages of a group; more are refused.
inline constexpr int tensor_max = 16;    ///< Devices that share a stage; more are refused.
/// Requests of one simulated run; a longer trace, or more of rate times seconds, is refused.
inline constexpr std::size_t arrivals_max = 20'000'000;
/// A bucket of up to so many devices may have groups of different shapes beside each other; in a
/// larger one all groups have one shape.
inline constexpr int mixed_devices_max = 8;
/// Requests that a controller remembers, to plan anew by; older ones are forgotten.
inline constexpr std::size_t observed_max = 100'000;
/// Most buckets that models are divided into by their latencies.
inline constexpr int buckets_max = 3;

} // namespace paceline::placement::limits
