// A checkpoint of a folder in the words of GGUF files.
#pragma once

#include "models/checkpoint/gguf_contents.hpp"

namespace paceline::models {

/// Translates configuration, tokenizer, chat template, defaults of sampling and names of tensors.
/// Dense families whose options GGUF files have words for are known; others, quantized checkpoints
/// and options that would be lost are refused by name.
Result<GgufContents> gguf_of_folder(const std::string& folder);

} // namespace paceline::models
