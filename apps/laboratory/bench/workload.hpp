// The prompts that `paceline bench` decodes.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::apps {

/// The file that the program brings.
std::string builtin_prompts();

/// {"prompts": [["first line", "second line"], ...]}: lines are joined by newlines.
Result<std::vector<std::string>> load_prompts(const std::string& path);

} // namespace paceline::apps
