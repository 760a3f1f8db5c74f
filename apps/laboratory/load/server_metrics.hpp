// The lengths of queues and counters on a server's /metrics page.
#pragma once

#include "apps/laboratory/load/target.hpp"

#include <string_view>

namespace paceline::apps::load {

/// Reads Prometheus' text format, by vLLM's names, which `paceline serve` has too. None: they are
/// not there.
std::optional<TargetState> read_metrics(std::string_view page);

} // namespace paceline::apps::load
