// Loopback addresses, which only this machine reaches.
#pragma once

#include <string>

namespace paceline::apps::serve {

/// Whether `host`, as `--host` names it, is this machine's own: 127.0.0.0/8, ::1, or localhost and
/// names below it, which are loopback without asking anybody (RFC 6761, section 6.3).
bool is_loopback(const std::string& host);

} // namespace paceline::apps::serve
