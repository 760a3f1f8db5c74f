// What a GGUF file of a model holds, wherever the model lies now.
#pragma once

#include "models/checkpoint/gguf_rows.hpp"
#include "models/checkpoint/gguf_writer.hpp"
#include "paceline/error.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace paceline::models {

struct GgufContents {
  GgufMetadata metadata; ///< Without the types of tensors.
  std::vector<PlacedTensor> tensors;
  /// Checks that a file means the same model, once all is written but the matrices. May be empty.
  std::function<Result<void>(const std::string& file)> check;
  std::vector<std::shared_ptr<const void>> files; ///< What the tensors point into.
};

} // namespace paceline::models
