// CAF's streams over TLS. CAF does not offer the TLS of its own remote actors to other brokers.
#pragma once

#include "nodes/certificate_hosts.hpp"

#include <caf/io/broker.hpp>
#include <caf/io/doorman.hpp>
#include <caf/io/scribe.hpp>

namespace paceline::nodes {

/// Makes a scribe for a socket that was connected here. Null: there is no TLS session to be had.
/// The peer's certificate must be the authority's; if it names hosts (subjectAltName) one of them
/// must be `host`.
caf::io::scribe_ptr connected_with_tls(caf::actor_system& system, int socket,
                                       const ExpectedPeer& expected);
/// Makes a doorman for a listening socket: each connection shows a certificate before a byte of it
/// is read.
caf::io::doorman_ptr listening_with_tls(caf::actor_system& system, int socket);

} // namespace paceline::nodes
