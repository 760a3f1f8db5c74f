// Sockets between machines, and the actor system's part in them.
#pragma once

#include "actors/other_machines.hpp"
#include "messages/caf.hpp"
#include "paceline/engine.hpp"
#include "paceline/error.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace paceline::nodes {

/// HOST:PORT, with an IPv6 address in brackets.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  std::string text() const;
};
/// field: what it is an option of, for messages.
Result<Endpoint> parse_endpoint(const std::string& field, std::string_view text);

/// "node://HOST:PORT", or with a device of the node's: "node://HOST:PORT/cpu:0".
struct NodeAddress {
  Endpoint endpoint;
  std::string device; ///< Empty: the node's first.
};
Result<NodeAddress> parse_node_address(const std::string& field, std::string_view text);

/// Has `self` told Connected, with a link that `self` owns or with why there is none; from any
/// thread, at once.
using Connector = std::function<void(caf::actor_system&, const caf::actor& self)>;
Connector make_connector(const NodeAddress& address, const NodeTls& tls);
/// "node://127.0.0.1:7000/cpu:1"
std::string name_of(const NodeAddress& address);

/// All named or none; with them both ends of every connection show a certificate of one authority.
Result<void> check_tls(const NodeTls& files);

/// Who owns the descriptor closes it.
using SocketDescriptor = int;
/// Connects within `limit`. Where nobody has to show a certificate, to this machine only.
Result<SocketDescriptor> dial(const Endpoint& to, const NodeTls& tls,
                              std::chrono::milliseconds limit);
struct Listening {
  SocketDescriptor socket = -1;
  std::uint16_t port = 0; ///< The given port, or the one chosen for 0.
};
/// Listens. If no certificate has to be shown, only this machine is listened to.
Result<Listening> listen_at(const Endpoint& at, const NodeTls& tls);

/// Has the actor system that is made from this deal with sockets.
void add_network(caf::actor_system_config& config, const NodeTls& tls);

/// Who sends what it is told over the socket, and to `owner` what comes from there. Either dies
/// with the other. host: that was dialled; a certificate that names hosts has to name it, or else
/// the owner is told Refused.
caf::actor open_link(caf::actor_system& system, SocketDescriptor socket, const NodeTls& tls,
                     const std::string& host, const caf::actor& owner);
/// Who has a session made for each connection, and links both. welcome: from its thread; null: one
/// that is too many.
caf::actor open_door(caf::actor_system& system, SocketDescriptor socket, const NodeTls& tls,
                     std::function<caf::actor()> welcome);

} // namespace paceline::nodes
