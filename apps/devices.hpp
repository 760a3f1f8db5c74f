// `paceline inspect --devices`: cores, kernels and memory of this machine.
#pragma once

#include "paceline/error.hpp"

namespace paceline::apps {

/// Prints them; gives the exit status.
Result<int> show_devices(bool json);

} // namespace paceline::apps
