// Bounds of the protocol over TCP, for servers and clients alike.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::net::limits {

/// Versions of the protocol that this build speaks; a client of others is refused.
inline constexpr std::uint32_t version_min = 1;
inline constexpr std::uint32_t version_max = 1;
/// A client's first frame, which comes before its key is known; a larger one ends the connection.
inline constexpr std::size_t hello_bytes = std::size_t(8) << 10;
/// A frame that a server takes, if --max-body is more.
inline constexpr std::size_t frame_bytes_max = std::size_t(1) << 30;
/// A frame that a client takes; a larger one ends the connection. A server's bound is --max-body.
inline constexpr std::size_t client_frame_bytes = std::size_t(256) << 20;

} // namespace paceline::net::limits
