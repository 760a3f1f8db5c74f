// What a server's /metrics page says of its queues.
#pragma once

#include "apps/laboratory/load/target.hpp"

#include <string_view>

namespace paceline::apps::load {

/// From Prometheus' text format, by vLLM's names, which `paceline serve` has too. None: they are
/// not there.
std::optional<TargetState> read_metrics(std::string_view page);

} // namespace paceline::apps::load
