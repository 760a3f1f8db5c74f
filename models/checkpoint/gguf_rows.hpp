// Tensors of another checkpoint, read in the order of rows that a GGUF file has.
#pragma once

#include "models/checkpoint/gguf.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace paceline::models {

/// What a GGUF file does to the numbers of a tensor.
enum class NumberChange {
  none,
  plus_one, ///< A norm's weight is stored as its difference to one.
  speed,    ///< A speed is stored as the logarithm of its size; in a GGUF it is below 0.
};

/// A tensor of a GGUF file as it lies now.
struct PlacedTensor {
  std::string name;                ///< In a GGUF, like the shape.
  std::vector<std::int64_t> shape; ///< Slowest dimension first.
  GgufType type;                   ///< Of the numbers as they lie now.
  /// Bytes of any alignment, equally many in each part: its rows are below each other, and those of
  /// a part below those of the one before.
  std::vector<std::span<const std::byte>> parts;
  /// Exponents of each part, if it is MXFP4 that has them apart from its codes. Codes that follow
  /// each other share a byte there, and are half a block apart in a GGUF.
  std::vector<std::span<const std::byte>> exponents = {};
  /// The rows as they lie now that are the rows of a GGUF; empty: all of them, in order. As many as
  /// there are numbers: each number is a row.
  std::vector<int> rows = {};
  std::vector<int> columns = {}; ///< The same of columns, of plain numbers.
  bool transposed = false;       ///< A part's columns are the rows. Of plain numbers.
  NumberChange change = NumberChange::none;

  std::uint64_t elements() const;
  /// Returns whether its shape, rows and columns lie within the parts: only then can it be read.
  bool is_whole() const;
};

/// Reads the rows of a tensor in the order of a GGUF file. Threads: any.
class GgufRows {
public:
  /// tensor: must outlive this object.
  explicit GgufRows(const PlacedTensor& tensor);

  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  /// Returns rows as a GGUF file has them, of the tensor's own type, without its change.
  std::vector<std::byte> take(std::int64_t first, std::int64_t count) const;

private:
  void copy_row(std::int64_t row, std::byte* to) const;
  void copy_column(std::span<const std::byte> part, std::size_t column, std::byte* to) const;
  void join_blocks(std::size_t part, std::size_t row, std::byte* to) const;

  const PlacedTensor& tensor_;
  std::int64_t cols_;
  std::int64_t rows_;
  std::size_t word_ = 0; ///< Bytes of a plain number.
  std::size_t row_bytes_;
  std::size_t part_rows_; ///< Rows of each part.
};

} // namespace paceline::models
