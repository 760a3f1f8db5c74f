// Bounds of the terminal's commands.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace paceline::apps::limits {

using namespace std::chrono_literals;

// These are bounds of `pull`, a client of a hub.

/// A page of the list of a model's files is no longer, and there are no more of them.
inline constexpr std::size_t hub_list_bytes = std::size_t(16) << 20;
inline constexpr int hub_pages_max = 100;
/// A file that a hub lists as larger is none.
inline constexpr std::uint64_t hub_file_bytes_max = std::uint64_t(1) << 44;
/// The hub may send a request on to so many other places, one behind the other.
inline constexpr long hub_redirects_max = 10;
/// The hub's connection is there within this time, and is not silent for longer than the second,
/// or that try has failed.
inline constexpr std::chrono::seconds hub_connect_time = 30s;
inline constexpr std::chrono::seconds hub_silence_time = 60s;
/// A request that brought nothing is made so many times. The pause before the second is the first
/// of these, and doubles with each unless the hub says how long; a hub that asks for more than the
/// second is not waited for.
inline constexpr int hub_tries = 6;
inline constexpr std::chrono::seconds hub_pause = 1s;
inline constexpr std::chrono::seconds hub_pause_max = 300s;

} // namespace paceline::apps::limits
