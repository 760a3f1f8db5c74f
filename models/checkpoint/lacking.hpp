// Folders that lack a file which is read here, and hold other programs' in its place.
#pragma once

#include "paceline/error.hpp"

#include <string>

namespace paceline::models {

/// An error where `folder` lacks `file` (config.json, tokenizer.json or model.safetensors) and
/// holds a file that is known to stand in for it: says what that is, and how to get what is read. A
/// folder that lacks it without such a file is left to whoever opens the file.
Result<void> check_not_foreign(const std::string& folder, const std::string& file);

} // namespace paceline::models
