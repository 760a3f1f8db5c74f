// Reads the safetensors format: eight bytes of header size, a JSON header, and the tensors' bytes.
// https://huggingface.co/docs/safetensors
#pragma once

#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace paceline::models {

/// The type of a file's numbers. Types of one byte are parts of quantized weights; tables of ids
/// are i64, and masks boolean.
enum class StoredType { f32, f16, bf16, f8_e4m3, f8_e5m2, f8_e8m0, u8, i8, i64, boolean };

std::size_t size_of(StoredType type);
const char* to_string(StoredType type) noexcept; ///< Spelled as in the format: "F8_E4M3"
/// Returns none for numbers of which a matrix cannot consist as they are.
std::optional<gpu::DType> dtype_of(StoredType type);

/// One tensor of a file; its bytes lie within the file and hold exactly its shape.
struct TensorEntry {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes; ///< Bytes of any alignment.
};

/// Parses a header, and checks all of it before anything is used: its size and JSON, names that
/// repeat, dtypes, shapes, overflow, ranges, and that the tensors cover the data without overlap or
/// gap. Entries are sorted by name, and point into `file`. path: for messages.
Result<std::vector<TensorEntry>> parse_safetensors(const std::string& path,
                                                   std::span<const std::byte> file);

} // namespace paceline::models
