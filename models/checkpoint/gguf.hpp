// The GGUF format of one file: a header, metadata by key, a table of tensors, and their bytes.
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

inline constexpr std::string_view gguf_magic = "GGUF"; ///< What a file begins with.

/// One value of the metadata; it points into the file.
class GgufValue {
public:
  /// As files number them.
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
  /// element: of an array.
  GgufValue(Type element, std::uint64_t count, std::string_view bytes)
      : type_(Type::array), element_(element), count_(count), bytes_(bytes) {}

  Type type() const { return type_; }
  bool is_array() const { return type_ == Type::array; }
  Type element() const { return element_; }
  std::uint64_t count() const { return count_; } ///< Of an array's elements.

  /// None: it is of another type, or out of the type's range.
  std::optional<std::int64_t> integer() const;
  std::optional<double> number() const; ///< An integer is one, too.
  std::optional<bool> boolean() const;
  std::optional<std::string_view> string() const;
  /// The elements of an array; none where they are of another type.
  std::optional<std::vector<std::int64_t>> integers() const; ///< Or booleans, as 0 and 1.
  std::optional<std::vector<float>> numbers() const;
  std::optional<std::vector<std::string_view>> strings() const;

private:
  Type type_;
  Type element_ = Type::u8;
  std::uint64_t count_ = 0;
  std::string_view bytes_; ///< Without lengths of a string; an array's elements.
};

/// How a tensor's numbers are written.
using GgufType = std::variant<gpu::DType, gpu::GgufFormat>;
const char* to_string(GgufType type) noexcept; ///< "bf16", "q4_k"

/// One tensor of a file; its bytes lie within the file and hold exactly its shape.
struct GgufTensor {
  std::string name;
  GgufType type;
  std::vector<std::int64_t> shape;  ///< Slowest first, as everywhere here: [rows, cols].
  std::span<const std::byte> bytes; ///< Any alignment.

  std::uint64_t elements() const;
};

/// What a file says.
struct Gguf {
  using Metadata = std::map<std::string, GgufValue, std::less<>>;
  Metadata metadata;
  std::vector<GgufTensor> tensors; ///< Sorted by name.
  std::size_t header_bytes = 0;    ///< All before the tensors' data.
};

/// Checks the whole header before anything is used: magic, version, counts, lengths of texts and
/// arrays, types, keys and names that repeat, alignment, shapes, overflow, ranges and overlaps.
/// A type of tensor that is not read is refused by name. path: for messages. What it gives points
/// into `file`.
Result<Gguf> parse_gguf(const std::string& path, std::span<const std::byte> file);

/// Bytes of a file that was parsed before: up to its tensors' data.
std::size_t gguf_header_bytes(std::span<const std::byte> file);

} // namespace paceline::models
