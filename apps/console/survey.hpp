// `paceline inspect --devices --node`: the devices and models of a node.
#pragma once

#include "paceline/engine.hpp"

#include <string>

namespace paceline::apps {

/// Asks the node, prints its answer, and returns the exit status. node: HOST:PORT, or
/// node://HOST:PORT.
Result<int> show_node(const std::string& node, const NodeTls& tls, bool json);

} // namespace paceline::apps
