// Texts from the command line, files and standard input.
#pragma once

#include "apps/options.hpp"
#include "paceline/error.hpp"

#include <string>

namespace paceline::apps {

/// The text a user named, byte for byte. Longer ones than the engine takes are refused unread.
Result<std::string> read_text(const PromptSource& source);

} // namespace paceline::apps
