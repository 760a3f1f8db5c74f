// What clients are told of the server's machines: what decides on their tokens, and no address.
#pragma once

#include "paceline/engine.hpp"

#include <string>

namespace paceline::apps::serve {

/// "the stage on node://10.0.0.7:7000/cpu:1 was lost" without where the node is:
/// "the stage on a node was lost".
std::string without_addresses(const std::string& text);
/// As clients name fields, and without addresses.
Error for_clients(const Error& error);
/// The numeric setting: version, device types, kernel families, formats, shards. Two engines with
/// the same one compute the same bits, wherever they are.
std::string fingerprint_of(const ModelInfo& target);

} // namespace paceline::apps::serve
