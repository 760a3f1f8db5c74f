// Whether two machines have the same model.
#pragma once

#include "paceline/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace paceline::models {

/// A name for what is at `location` (models::resolve_model_path) by its content: SHA-256, in hex,
/// of config.json, tokenizer.json and, of each file of weights, name, length and header, which has
/// every tensor's name, shape and type; of a GGUF file the metadata stand there too. Weights
/// themselves are not read: it takes milliseconds, and a draft with other numbers is a worse draft,
/// never a wrong output.
Result<std::string> checkpoint_identity(const std::string& location);

/// The same for machines that have layers of one model: SHA-256, in hex, of a few thousand short
/// pieces spread over each file of weights. Another training of the same model differs in it, a
/// few numbers that were changed by hand may not. Empty: it has no files.
Result<std::string> sample_weights(const std::string& location);

/// Paths of the files that a model at `location` is loaded from: configuration, tokenizer, weights
/// and their index. None: it has no files (a scripted model).
Result<std::vector<std::string>> checkpoint_files(const std::string& location);
/// Whether one of them may have this name, which somebody else says.
bool is_checkpoint_file(std::string_view name);

} // namespace paceline::models
