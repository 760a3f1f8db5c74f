// `paceline inspect --devices`: the host, GPUs or why there is none, and simulated devices.
#pragma once

#include "paceline/error.hpp"

namespace paceline::apps {

/// Prints them; gives the exit status.
Result<int> show_devices(bool json);

} // namespace paceline::apps
