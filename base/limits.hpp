// Bounds of the base layer (docs/limits.md lists all layers').
#pragma once

#include <cstddef>

namespace paceline::base::limits {

/// Events kept by a trace; later ones are dropped and counted, and the file says so.
inline constexpr std::size_t trace_events_max = 2'000'000;

} // namespace paceline::base::limits
