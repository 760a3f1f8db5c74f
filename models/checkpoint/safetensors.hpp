// The safetensors format: eight bytes of header size, a JSON header, and the tensors' bytes.
// https://huggingface.co/docs/safetensors
#pragma once

#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace paceline::models {

/// One tensor of a file; its bytes lie within the file and hold exactly its shape.
struct TensorEntry {
  std::string name;
  gpu::DType dtype = gpu::DType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes; ///< Any alignment.
};

/// Checks a whole header before anything is used: its size and JSON, names that repeat, dtypes,
/// shapes, overflow, ranges, and that the tensors cover the data without overlap or gap.
/// Entries are sorted by name. path: for messages. The entries point into `file`.
Result<std::vector<TensorEntry>> parse_safetensors(const std::string& path,
                                                   std::span<const std::byte> file);

} // namespace paceline::models
