// Whether two machines have the same model.
#pragma once

#include "paceline/error.hpp"

#include <string>

namespace paceline::models {

/// A name for what is at `location` (models::resolve_model_path) by its content: SHA-256, in hex,
/// of config.json, tokenizer.json and, of each file of weights, name, length and header, which has
/// every tensor's name, shape and type. Weights themselves are not read: it takes milliseconds, and
/// a draft with other numbers is a worse draft, never a wrong output.
Result<std::string> checkpoint_identity(const std::string& location);

} // namespace paceline::models
