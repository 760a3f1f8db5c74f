// CAF's streams over TLS: what its own remote actors use is not offered to other brokers.
#pragma once

#include <caf/io/broker.hpp>
#include <caf/io/doorman.hpp>
#include <caf/io/scribe.hpp>

namespace paceline::actors {

/// Of a socket that was connected here. Null: there is no TLS session to be had.
caf::io::scribe_ptr connected_with_tls(caf::actor_system& system, int socket);
/// Of a socket that listens: each connection shows a certificate before a byte of it is read.
caf::io::doorman_ptr listening_with_tls(caf::actor_system& system, int socket);

} // namespace paceline::actors
