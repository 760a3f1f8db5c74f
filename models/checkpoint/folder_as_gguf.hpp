// The tensors of a checkpoint folder as a GGUF file has them.
#pragma once

#include "models/checkpoint/gguf_architecture.hpp"
#include "models/checkpoint/gguf_contents.hpp"
#include "models/config.hpp"
#include "paceline/error.hpp"

#include <string>

namespace paceline::models {

/// What a user may do where a GGUF file has no word for something.
inline constexpr const char* into_folder_hint = "quantize it into a folder, or while it is loaded";

/// Returns the tensors of a folder of plain numbers, of which stacks of experts may be MXFP4, and
/// what they point into. Blocks that draft are left out. A tensor that has no place in a file of
/// the architecture is an error that names it. config: the folder's
Result<GgufContents> folder_as_gguf(const std::string& folder, const ModelConfig& config,
                                    const GgufArchitecture& architecture);

} // namespace paceline::models
