// `paceline inspect --devices --node`: what a node has.
#pragma once

#include "paceline/engine.hpp"

#include <string>

namespace paceline::apps {

/// Asks the node and prints; gives the exit status. node: HOST:PORT, or node://HOST:PORT.
Result<int> show_node(const std::string& node, const NodeTls& tls, bool json);

} // namespace paceline::apps
