// The hosts that a certificate is for.
#pragma once

#include <caf/openssl/session.hpp>
#include <memory>
#include <string>

namespace paceline::nodes {

/// The peer that is expected at the other end.
struct ExpectedPeer {
  std::string host; ///< Name or address that was dialled.
  /// Set, before the connection ends, to the reason why the peer's certificate is not trusted.
  std::shared_ptr<std::string> distrust;
};

/// Makes a session check the peer's certificate during the handshake, before anything is sent over
/// it. expected: outlives the session.
void expect_peer(caf::openssl::session& session, const ExpectedPeer& expected);

} // namespace paceline::nodes
