// Folders that lack a file which is read here, and hold other programs' in its place.
#pragma once

#include "paceline/error.hpp"

#include <string>

namespace paceline::models {

/// An error where `folder` lacks `file` (config.json, tokenizer.json or model.safetensors) and
/// holds a file that is known to stand in for it: says what that is, and how to get what is read. A
/// folder that lacks it without such a file is left to whoever opens the file, unless a download
/// into it was not finished.
Result<void> check_not_foreign(const std::string& folder, const std::string& file);

/// An error where `folder` lacks `file`, and a download would bring it: the folder is one of the
/// Hugging Face cache's, or has the unfinished parts of one.
Result<void> check_downloaded(const std::string& folder, const std::string& file);

} // namespace paceline::models
