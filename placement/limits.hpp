// Bounds of the placement layer (docs/limits.md lists all layers').
#pragma once

#include <cstddef>

namespace paceline::placement::limits {

/// More models or devices of a plan are refused.
inline constexpr int models_max = 1024;
inline constexpr int devices_max = 1024;
/// More stages of a group, or devices of a stage, are refused.
inline constexpr int pipeline_max = 64;
inline constexpr int tensor_max = 16;
/// A plan's file with larger batches is refused.
inline constexpr int batch_max = 1024;
/// A request is refused where it would make another one late: among the next so many to end, of
/// each model.
inline constexpr std::size_t protected_max = 256;
/// A factor by which models slow each other on a device is refused below and above these.
inline constexpr double contention_min = 0.5;
inline constexpr double contention_max = 10;
/// A longer trace, or more requests of a simulated run by rate times seconds, are refused.
inline constexpr std::size_t arrivals_max = 20'000'000;
/// A trace has no more minutes that were counted, and is divided into no more windows: so many of
/// all models together.
inline constexpr std::size_t windows_max = 1'000'000;
/// A bucket of up to so many devices may have groups of different shapes beside each other; in a
/// larger one all groups have one shape.
inline constexpr int mixed_devices_max = 8;
/// A controller remembers so many requests, to plan anew by; older ones are forgotten.
inline constexpr std::size_t observed_max = 100'000;
/// Models are divided by their latencies into at most so many buckets.
inline constexpr int buckets_max = 3;

} // namespace paceline::placement::limits
