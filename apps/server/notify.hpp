// The service manager's protocol: sd_notify(3), which needs no library.
#pragma once

#include <string>

namespace paceline::apps::serve {

/// Sends `state`, such as "READY=1", to the socket that $NOTIFY_SOCKET names; without one it does
/// nothing. Failures are ignored.
void notify_manager(const std::string& state);

} // namespace paceline::apps::serve
