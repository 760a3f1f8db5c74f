// What a node has, for people.
#pragma once

#include "messages/node.hpp"
#include "nodes/network.hpp"

namespace paceline::nodes {

/// Asks a node. From a thread that may wait.
Result<messages::Surveyed> survey_node(const NodeAddress& address, const NodeTls& tls);

} // namespace paceline::nodes
