// The devices and models of a node, for people.
#pragma once

#include "messages/node.hpp"
#include "nodes/network.hpp"

namespace paceline::nodes {

/// Asks a node. To be called from a thread that may wait.
Result<messages::Surveyed> survey_node(const NodeAddress& address, const NodeTls& tls);

} // namespace paceline::nodes
