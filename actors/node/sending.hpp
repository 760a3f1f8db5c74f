// A model's files on their way to a node.
#pragma once

#include "actors/node/talk.hpp"

#include <string>

namespace paceline::actors {

/// Sends what is at `location`, which is called `identity`, to a node that takes files. When the
/// connection is cut it goes on behind what has arrived. From a thread that may wait. progress: the
/// share that is there. Errors: a node that has no room, or is not there; files that cannot be
/// read.
Result<void> send_model(caf::actor_system& system, const NodeAddress& address, const NodeTls& tls,
                        const std::string& location, const std::string& identity,
                        const Progress& progress);

} // namespace paceline::actors
