// Errors for folders that lack a file which is read here, and have a file of another program
// instead.
#pragma once

#include "paceline/error.hpp"

#include <boost/json/object.hpp>
#include <string>

namespace paceline::models {

/// Fails if `folder` lacks `file` (config.json, tokenizer.json or model.safetensors) and holds a
/// file that is known to take its place elsewhere: the error says what that is, and how to get the
/// right one. A folder without such a file is left to the code that opens `file`, unless a download
/// into it was not finished.
Result<void> check_not_foreign(const std::string& folder, const std::string& file);
/// Reads the folder's config.json, with such an error.
Result<boost::json::object> read_folder_config(const std::string& folder);

/// Fails if `folder` lacks `file`, and a download would bring it: the folder is in the Hugging Face
/// cache, or has unfinished parts of a download.
Result<void> check_downloaded(const std::string& folder, const std::string& file);

} // namespace paceline::models
