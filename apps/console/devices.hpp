// `paceline inspect --devices`: the host, GPUs or why there is none, and simulated devices.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::apps {

/// Prints them, and returns the exit status.
Result<int> show_devices(bool json);

/// Returns the names that options take: "cpu", the GPUs that there are, simulated devices.
std::vector<std::string> device_names();

} // namespace paceline::apps
