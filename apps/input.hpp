// Texts from the command line, files and standard input.
#pragma once

#include "apps/options.hpp"
#include "paceline/error.hpp"

#include <string>

namespace paceline::apps {

/// "~" and "~/..." as a shell would give them, where none has seen the name: in a chat's commands
/// and in files.
std::string with_home(std::string path);

/// The text a user named, byte for byte. Longer ones than the engine takes are refused unread.
Result<std::string> read_text(const PromptSource& source);

} // namespace paceline::apps
