// A model's files on their way to a node.
#pragma once

#include "nodes/query.hpp"

#include <string>
#include <thread>

namespace paceline::nodes {

/// Sends what is at `location`, which is called `identity`, to a node that takes files. When the
/// connection is cut it goes on behind what has arrived. From a thread that may wait. progress: the
/// share that is there. Errors: a node that has no room, or is not there; files that cannot be
/// read.
Result<void> send_model(caf::actor_system& system, const NodeAddress& address, const NodeTls& tls,
                        const std::string& location, const std::string& identity,
                        const Progress& progress);

/// Whoever a model is sent for.
struct ModelFiles {
  std::string name; ///< For the progress that is shown.
  std::string location;
  std::string identity;
};

/// What `ask(takes_files)` gives in the end, which says whether the node would take the files: they
/// are sent first to a node that lacks them and takes them. Waits as send_model does.
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
