// Texts from the command line, files and standard input.
#pragma once

#include "paceline/error.hpp"

#include <optional>
#include <string>

namespace paceline::apps {

/// Names where a text comes from; without either it is standard input.
struct PromptSource {
  std::optional<std::string> text; ///< "-": standard input.
  std::optional<std::string> file;
};

/// The text a user named, byte for byte. Longer ones than the engine takes are refused unread.
Result<std::string> read_text(const PromptSource& source);

} // namespace paceline::apps
