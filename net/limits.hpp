// Bounds of the client of a server; the server's are in apps/console/limits.hpp.
#pragma once

#include <chrono>

namespace paceline::net::limits {

/// A client takes messages up to this; a larger one ends its call. A server's bound is --max-body.
inline constexpr int client_message_bytes = 256 << 20;
/// A later deadline of a request counts as this.
inline constexpr std::chrono::milliseconds deadline_max = std::chrono::hours(24 * 366);
/// A client pings a server by which it hears nothing no more often than this; a server ends a
/// connection on which pings come twice as often.
inline constexpr std::chrono::milliseconds ping_pause{1'000};

} // namespace paceline::net::limits
