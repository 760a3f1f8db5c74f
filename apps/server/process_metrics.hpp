// The metrics of a process that Prometheus' client libraries report.
#pragma once

#include <string>

namespace paceline::apps::serve {

/// Returns process_cpu_seconds_total, process_resident_memory_bytes and the like, from /proc; a
/// value that cannot be read is left out.
std::string process_text();

} // namespace paceline::apps::serve
