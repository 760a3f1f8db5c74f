// What Prometheus' clients say of the process that they are in.
#pragma once

#include <string>

namespace paceline::apps::serve {

/// process_cpu_seconds_total, process_resident_memory_bytes and the like, from /proc; what cannot
/// be read is left out.
std::string process_text();

} // namespace paceline::apps::serve
