// The prompts that `paceline bench` decodes.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::apps {

/// {"prompts": [["first line", "second line"], ...]}: lines are joined by newlines.
Result<std::vector<std::string>> load_prompts(const std::string& path);

} // namespace paceline::apps
