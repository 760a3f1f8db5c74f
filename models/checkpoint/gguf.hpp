// Reads the GGUF format: a header, metadata by key, a table of tensors, and the tensors' bytes.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include "gpu/gguf_blocks.hpp"
#include "gpu/tensor.hpp"
#include "paceline/error.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace paceline::models {

inline constexpr std::string_view gguf_magic = "GGUF"; ///< The first bytes of a file.

/// One value of the metadata; it points into the file.
class GgufValue {
public:
  /// The numbers are those in the files.
  enum class Type : std::uint32_t {
    u8,
    i8,
    u16,
    i16,
    u32,
    i32,
    f32,
    boolean,
    string,
    array,
    u64,
    i64,
    f64
  };

  GgufValue(Type type, std::string_view bytes) : type_(type), bytes_(bytes) {}
  /// element: the type of an array's elements.
  GgufValue(Type element, std::uint64_t count, std::string_view bytes)
      : type_(Type::array), element_(element), count_(count), bytes_(bytes) {}

  Type type() const { return type_; }
  bool is_array() const { return type_ == Type::array; }
  Type element() const { return element_; }
  std::uint64_t count() const { return count_; } ///< Number of an array's elements.

  /// Returns none if the value is of another type, or out of range.
  std::optional<std::int64_t> integer() const;
  std::optional<double> number() const; ///< Also converts integers.
  std::optional<bool> boolean() const;
  std::optional<std::string_view> string() const;
  /// Returns the elements of an array; none if they are of another type.
  std::optional<std::vector<std::int64_t>> integers() const; ///< Also takes booleans, as 0 and 1.
  std::optional<std::vector<float>> numbers() const;
  std::optional<std::vector<std::string_view>> strings() const;
  /// Returns the value as it stands in a file, behind its type.
  std::string encoded() const;

private:
  Type type_;
  Type element_ = Type::u8;
  std::uint64_t count_ = 0;
  std::string_view bytes_; ///< A string's without its length, or an array's elements.
};

/// The type of a tensor's numbers.
using GgufType = std::variant<gpu::DType, gpu::GgufFormat>;
const char* to_string(GgufType type) noexcept; ///< "bf16", "q4_k"

/// One tensor of a file; its bytes lie within the file and hold exactly its shape.
struct GgufTensor {
  std::string name;
  GgufType type;
  std::vector<std::int64_t> shape;  ///< Slowest dimension first, as everywhere here: [rows, cols].
  std::span<const std::byte> bytes; ///< Bytes of any alignment.

  std::uint64_t elements() const;
};

/// The contents of a file.
struct Gguf {
  using Metadata = std::map<std::string, GgufValue, std::less<>>;
  Metadata metadata;
  std::vector<GgufTensor> tensors; ///< Sorted by name.
  std::size_t header_bytes = 0;    ///< Bytes before the tensors' data.
};

/// Parses a file, and checks its whole header before anything is used: magic, version, counts,
/// lengths of texts and arrays, types, keys and names that repeat, alignment, shapes, overflow,
/// ranges and overlaps. A tensor type that is not read is refused by name. path: for messages. The
/// result points into `file`.
Result<Gguf> parse_gguf(const std::string& path, std::span<const std::byte> file);

/// Returns the size of the header of a file that was parsed before, up to its tensors' data.
std::size_t gguf_header_bytes(std::span<const std::byte> file);

} // namespace paceline::models
