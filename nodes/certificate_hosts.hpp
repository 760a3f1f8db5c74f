// Which hosts a certificate is for.
#pragma once

#include <caf/openssl/session.hpp>
#include <memory>
#include <string>

namespace paceline::nodes {

/// Who is expected at the other end.
struct ExpectedPeer {
  std::string host; ///< A name or an address, as it was dialled.
  /// Is set, before the connection ends, to why the peer's certificate is not trusted.
  std::shared_ptr<std::string> distrust;
};

/// Has a session look at the peer's certificate while it shakes hands, before anything is sent
/// over it. expected: outlives the session.
void expect_peer(caf::openssl::session& session, const ExpectedPeer& expected);

} // namespace paceline::nodes
