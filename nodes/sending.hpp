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

/// Returns the result of `ask(takes_files)`, which tells whether the node would take the files. A
/// node that lacks them and takes them is sent them first, and asked again. Waits as send_model
/// does.
template <class Ask>
auto ask_and_send(caf::actor_system& system, const NodeAddress& address, const EngineOptions& o,
                  const ModelFiles& files, const Ask& ask) {
  const auto show = [&](double done) {
    if (o.progress)
      o.progress("sending " + files.name + " to " + address.endpoint.text(), done);
  };
  for (bool sent = false;;) {
    bool takes_files = false;
    auto answer = ask(takes_files);
    if (answer || !takes_files || sent)
      return answer;
    const auto arrived =
        send_model(system, address, o.node_tls, files.location, files.identity, show);
    sent = arrived.has_value();
    if (!arrived && arrived.error().code != ErrorCode::overloaded)
      return decltype(answer)(tl::unexpected(arrived.error()));
    if (!arrived)
      std::this_thread::sleep_for(limits::sending_pause);
  }
}

} // namespace paceline::nodes
