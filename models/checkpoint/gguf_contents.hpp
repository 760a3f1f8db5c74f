// What a GGUF file of a model holds, wherever the model lies now.
#pragma once

#include "models/checkpoint/gguf.hpp"
#include "models/checkpoint/gguf_writer.hpp"
#include "models/checkpoint/row_order.hpp"
#include "paceline/error.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace paceline::models {

struct GgufContents {
  /// A tensor by the name that files have for it.
  struct Tensor {
    GgufTensor stored;     ///< As it lies now.
    RowOrder order = {};   ///< RowOrder::in_file says where a row of `stored` lies in a GGUF.
    bool plus_one = false; ///< A GGUF has these numbers plus one.
  };

  GgufMetadata metadata; ///< Without the types of tensors.
  std::vector<Tensor> tensors;
  /// Checks that a file means the same model, once all is written but the matrices. May be empty.
  std::function<Result<void>(const std::string& file)> check;
  std::vector<std::shared_ptr<const void>> files; ///< What the tensors point into.
};

} // namespace paceline::models
