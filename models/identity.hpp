// Tells whether two machines have the same model.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// Names what is at `location` (models::resolve_model_path) by its content: SHA-256, in hex, of
/// config.json, tokenizer.json and, for each file of weights, its name, length and header, which
/// has every tensor's name, shape and type; the header of a GGUF file has the metadata, too.
/// Weights themselves are not read: it takes milliseconds, and a draft with other numbers is a
/// worse draft, never a wrong output.
Result<std::string> checkpoint_identity(const std::string& location);

/// Does the same for machines that have layers of one model: SHA-256, in hex, of a few thousand
/// short pieces spread over each file of weights. Another training of the same model gives another
/// digest, a few numbers changed by hand may not. Empty: the model has no files.
Result<std::string> sample_weights(const std::string& location);

/// Returns the paths of the files that a model at `location` is loaded from: configuration,
/// tokenizer, weights and their index. None: it has no files (a scripted model).
Result<std::vector<std::string>> checkpoint_files(const std::string& location);
/// Returns whether such a file may have this name, which comes from another machine.
bool is_checkpoint_file(std::string_view name);

} // namespace paceline::models
