// Which hosts a certificate is for.
#pragma once

#include "actors/node/tls.hpp"

#include <caf/openssl/session.hpp>

namespace paceline::actors {

/// Has a session look at the peer's certificate while it shakes hands, before anything is sent
/// over it. expected: outlives the session.
void expect_peer(caf::openssl::session& session, const ExpectedPeer& expected);

} // namespace paceline::actors
