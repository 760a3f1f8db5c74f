// What a node has, for people.
#pragma once

#include "actors/node/network.hpp"
#include "messages/node.hpp"

namespace paceline::actors {

/// Asks a node. From a thread that may wait.
Result<messages::Surveyed> survey_node(const NodeAddress& address, const NodeTls& tls);

} // namespace paceline::actors
