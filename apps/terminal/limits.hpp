// Bounds of `paceline pull`, a client of a hub.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace paceline::apps::limits {

using namespace std::chrono_literals;

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
/// A request that brought nothing is made so many times, each behind a pause, which begins with the
/// first length and doubles, unless the hub says how long. A hub that asks for more than the second
/// length is not waited for.
inline constexpr int hub_tries = 6;
inline constexpr std::chrono::seconds hub_pause = 1s;
inline constexpr std::chrono::seconds hub_pause_max = 300s;

} // namespace paceline::apps::limits
