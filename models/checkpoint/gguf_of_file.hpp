// What a GGUF file holds, to be written to another one.
#pragma once

#include "models/checkpoint/gguf_contents.hpp"

namespace paceline::models {

/// Returns all of a file, or of the parts that one begins, but how it was made and how it lies on
/// the disk.
Result<GgufContents> gguf_of_file(const std::string& file);

} // namespace paceline::models
