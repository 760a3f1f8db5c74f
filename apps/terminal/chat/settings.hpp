// The settings of a request that a chat changes while it runs.
#pragma once

#include "apps/terminal/chat/command.hpp"
#include "paceline/request.hpp"

#include <string>
#include <string_view>

namespace paceline::apps {

/// Applies /speculation, /window, /verify, /temperature or /seed, and returns the value that holds
/// now; without an argument nothing changes.
Result<std::string> apply_setting(const ChatCommand& command, Request& request);
/// Returns the argument of `/set` as the command of that name: "seed 7", or "parameter seed 7".
Result<ChatCommand> named_setting(std::string_view given);
/// Returns the values of all settings that apply_setting applies, in a line.
std::string all_settings(const Request& request);

} // namespace paceline::apps
