// The prompts that `paceline bench` decodes.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::apps {

/// Returns the prompts that are built into the program, as JSON.
std::string builtin_prompts();

/// Reads {"prompts": [["first line", "second line"], ...]}, whose lines are joined by newlines.
Result<std::vector<std::string>> load_prompts(const std::string& path);

} // namespace paceline::apps
