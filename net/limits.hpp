// Bounds of the client of a server; the server's are in apps/console/limits.hpp.
#pragma once

#include <chrono>

namespace paceline::net::limits {

/// A message that a client takes; a larger one ends its call. A server's bound is --max-body.
inline constexpr int client_message_bytes = 256 << 20;
/// A request's deadline, in a message; a later one counts as this.
inline constexpr std::chrono::milliseconds deadline_max = std::chrono::hours(24 * 366);
/// How often a client may ping a server by which it hears nothing; more often, and the server ends
/// the connection.
inline constexpr std::chrono::milliseconds ping_pause{1'000};

} // namespace paceline::net::limits
