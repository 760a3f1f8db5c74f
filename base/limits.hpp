// Bounds of the base layer (docs/limits.md lists all layers').
#pragma once

#include <chrono>
#include <cstddef>

namespace paceline::base::limits {

/// A trace keeps so many events; later ones are dropped and counted, and the file says so.
inline constexpr std::size_t trace_events_max = 2'000'000;

/// A watch of lanes (Engine::watch_lanes) keeps so many spans until they are taken; beyond that the
/// oldest are dropped and counted.
inline constexpr std::size_t watched_spans_max = 4096;

/// One engine or client has so many threads for callers' functions (Stream::on_ready, on_end),
/// which are begun when they are needed; when all of them are in functions that wait, others wait
/// for them.
inline constexpr int callback_threads_max = 16;

/// Lanes' and actors' threads ask for turns this short on cores that others use, too: Linux gives
/// no shorter ones.
inline constexpr std::chrono::nanoseconds turn{100'000};

/// Stream::next_for waits a year at most.
inline constexpr std::chrono::nanoseconds wait_max = std::chrono::hours(24 * 365);

} // namespace paceline::base::limits
