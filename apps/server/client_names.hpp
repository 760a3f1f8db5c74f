// Texts for clients on the server's machines: the settings that decide on their tokens, and no
// address.
#pragma once

#include "paceline/engine.hpp"

#include <string>

namespace paceline::apps::serve {

/// Makes "the stage on node://10.0.0.7:7000/cpu:1 was lost" "the stage on a node was lost", which
/// does not tell where the node is.
std::string without_addresses(const std::string& text);
/// Returns the error with fields named as clients name them, and without addresses.
Error for_clients(const Error& error);
/// Returns the numeric setting: version, device types, kernel families, formats, shards. Two
/// engines with the same one compute the same bits, wherever they are.
std::string fingerprint_of(const ModelInfo& target);

} // namespace paceline::apps::serve
