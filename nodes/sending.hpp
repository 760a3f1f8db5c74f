// Sending a model's files to a node.
#pragma once

#include "nodes/query.hpp"

#include <string>
#include <thread>

namespace paceline::nodes {

/// Sends the model at `location`, whose name is `identity`, to a node that takes files. If the
/// connection is cut, sending goes on behind the bytes that have arrived. To be called from a
/// thread that may wait. progress: called with the share that has arrived. Errors: a node that has
/// no room, or is not there; files that cannot be read.
Result<void> send_model(caf::actor_system& system, const NodeAddress& address, const NodeTls& tls,
                        const std::string& location, const std::string& identity,
                        const Progress& progress);

/// The model to be sent.
struct ModelFiles {
  std::string name; ///< Name in the progress that is shown.
  std::string location;
  std::string identity;
};

/// Connects, asks whether the node could do as `hello` says, and disconnects. A node that lacks the
/// model and takes its files is sent them first, and asked again. Waits as send_model does.
template <class Opened, class Hello>
Result<Opened> ask_and_send(caf::actor_system& system, const NodeAddress& address,
                            const EngineOptions& o, const ModelFiles& files, Hello hello) {
  hello.only_asks = true;
  const auto show = [&](double done) {
    if (o.progress)
      o.progress("sending " + files.name + " to " + address.endpoint.text(), done);
  };
  for (bool sent = false;;) {
    bool takes_files = false;
    const auto ask = [&](const auto& node) -> caf::message_handler {
      node->say(hello);
      return {[node](const Opened& opened) { node->end(opened); },
              [node, &takes_files](const messages::Refused& refused) {
                takes_files = refused.takes_files;
                node->end(tl::unexpected(refused.why));
              }};
    };
    auto answer = query<Opened>(system, address, o.node_tls, ask);
    if (answer || !takes_files || sent)
      return answer;
    const auto arrived =
        send_model(system, address, o.node_tls, files.location, files.identity, show);
    sent = arrived.has_value();
    if (!arrived && arrived.error().code != ErrorCode::overloaded)
      return tl::unexpected(arrived.error());
    if (!arrived)
      std::this_thread::sleep_for(limits::sending_pause);
  }
}

} // namespace paceline::nodes
