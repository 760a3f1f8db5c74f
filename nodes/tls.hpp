// CAF's streams over TLS: what its own remote actors use is not offered to other brokers.
#pragma once

#include "nodes/certificate_hosts.hpp"

#include <caf/io/broker.hpp>
#include <caf/io/doorman.hpp>
#include <caf/io/scribe.hpp>

namespace paceline::nodes {

/// Of a socket that was connected here. Null: there is no TLS session to be had. The peer's
/// certificate is the authority's; where it names hosts (subjectAltName) one of them is `host`.
caf::io::scribe_ptr connected_with_tls(caf::actor_system& system, int socket,
                                       const ExpectedPeer& expected);
/// Of a socket that listens: each connection shows a certificate before a byte of it is read.
caf::io::doorman_ptr listening_with_tls(caf::actor_system& system, int socket);

} // namespace paceline::nodes
