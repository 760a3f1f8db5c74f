// Texts from the command line, files and standard input.
#pragma once

#include "paceline/error.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace paceline::apps {

/// The place a text comes from; if neither is set it is standard input.
struct PromptSource {
  std::optional<std::string> text; ///< "-": standard input.
  std::optional<std::string> file;
};

/// Returns the text that a user named, byte for byte. A text longer than the engine takes is
/// refused unread.
Result<std::string> read_text(const PromptSource& source);
/// Returns a file's text, byte for byte. bytes_max: a longer one is refused.
Result<std::string> read_text_file(const std::string& path, std::size_t bytes_max);

} // namespace paceline::apps
