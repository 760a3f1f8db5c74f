// The settings of a request that a chat changes while it runs.
#pragma once

#include "apps/chat/command.hpp"
#include "paceline/request.hpp"

#include <string>

namespace paceline::apps {

/// Applies /speculation, /window, /verify, /temperature or /seed, and says what holds now; without
/// an argument nothing changes.
Result<std::string> apply_setting(const ChatCommand& command, Request& request);

} // namespace paceline::apps
