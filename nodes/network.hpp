// Sockets between machines, and their handling by the actor system.
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

/// An address HOST:PORT, with an IPv6 address in brackets.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  std::string text() const;
};
/// Parses it. field: the option that it is the value of, for messages.
Result<Endpoint> parse_endpoint(const std::string& field, std::string_view text);

/// An address "node://HOST:PORT", or with a device of the node: "node://HOST:PORT/cpu:0".
struct NodeAddress {
  Endpoint endpoint;
  std::string device; ///< Empty: the node's first.
};
Result<NodeAddress> parse_node_address(const std::string& field, std::string_view text);

/// Connects, and tells `self` Connected, with a link that `self` owns or with the reason why there
/// is none. Returns at once; on any thread.
using Connector = std::function<void(caf::actor_system&, const caf::actor& self)>;
Connector make_connector(const NodeAddress& address, const NodeTls& tls);
/// Returns a name such as "node://127.0.0.1:7000/cpu:1".
std::string name_of(const NodeAddress& address);

/// Checks that all files are named or none. If they are, both ends of every connection show a
/// certificate of one authority.
Result<void> check_tls(const NodeTls& files);

/// A descriptor, which its owner closes.
using SocketDescriptor = int;
/// Connects within `limit`; without certificates only to this machine.
Result<SocketDescriptor> dial(const Endpoint& to, const NodeTls& tls,
                              std::chrono::milliseconds limit);
struct Listening {
  SocketDescriptor socket = -1;
  std::uint16_t port = 0; ///< The given port, or the one chosen for 0.
};
/// Listens; without certificates only to this machine.
Result<Listening> listen_at(const Endpoint& at, const NodeTls& tls);

/// Makes the actor system of this configuration handle sockets.
void add_network(caf::actor_system_config& config, const NodeTls& tls);

/// Opens an actor that sends over the socket what it is told, and tells `owner` what comes from
/// there. Either dies with the other. host: the one that was dialled; a certificate that names
/// hosts has to name it, or the owner is told Refused.
caf::actor open_link(caf::actor_system& system, SocketDescriptor socket, const NodeTls& tls,
                     const std::string& host, const caf::actor& owner);
/// Opens an actor that has a session made for each connection, and links both. welcome: called on
/// the actor's thread; null: the connection is one too many.
caf::actor open_door(caf::actor_system& system, SocketDescriptor socket, const NodeTls& tls,
                     std::function<caf::actor()> welcome);

} // namespace paceline::nodes
