// The settings of a request that a chat changes while it runs.
#pragma once

#include "apps/terminal/chat/command.hpp"
#include "paceline/request.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

/// Applies a setting of requests, and returns the value that holds now; without an argument nothing
/// changes.
Result<std::string> apply_setting(const ChatCommand& command, Request& request);
/// Returns the argument of `/set` as the command of that name: "seed 7", or "parameter seed 7"; a
/// number of requests that has no command becomes `Kind::number`.
Result<ChatCommand> named_setting(std::string_view given);
/// Returns the names that `/set` knows.
std::vector<std::string> setting_names();
/// Returns in a line the values of the settings that have commands, and of those that were set.
std::string all_settings(const Request& request);

} // namespace paceline::apps
