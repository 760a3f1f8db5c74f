// Rows of a weight as blocks of a microscaling format, in the bytes that files have, and what
// rounding cost.
#pragma once

#include "gpu/tensor.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::models {

/// What rounding cost: of single weights, and of all of a kind.
struct QuantizationError {
  std::uint64_t weights = 0;
  double squared = 0;      ///< Sum of the squared differences,
  double squared_size = 0; ///< and of the squared weights.
  float largest = 0;       ///< Difference of one weight.

  void add(const QuantizationError& other);
  double mean_squared() const { return weights ? squared / double(weights) : 0; }
  /// Over the weights' own mean square: 0.001 is 30 dB below them.
  double relative() const { return squared_size > 0 ? squared / squared_size : 0; }
};

/// Bytes of the codes of a row with `inputs`, whose last block is whole.
std::size_t code_row_bytes(WeightFormat format, int inputs);

/// Encodes some rows of a matrix at a time. Threads: one; it divides its work among the cores.
class RowEncoder {
public:
  RowEncoder(gpu::Quantization how, int cols, int rows_at_once);

  std::size_t code_row() const { return code_row_; } ///< Bytes.
  std::size_t scale_row() const { return scale_row_; }

  /// from: [count, cols] of `dtype`; count: at most rows_at_once.
  void encode(gpu::DType dtype, const std::byte* from, int count);

  /// Of the rows encoded last, the first `rows`.
  std::span<const std::byte> codes(int rows) const {
    return std::as_bytes(std::span(codes_).first(std::size_t(rows) * code_row_));
  }
  std::span<const std::byte> scales(int rows) const {
    return std::as_bytes(std::span(scales_).first(std::size_t(rows) * scale_row_));
  }
  /// largest is NaN where a row has a weight that is not finite.
  const QuantizationError& error(int row) const { return errors_[std::size_t(row)]; }

private:
  QuantizationError encode_row(const std::vector<float>& row, std::uint8_t* codes,
                               std::uint8_t* scales) const;

  gpu::Quantization how_;
  int bits_;
  int cols_;
  std::size_t code_row_;
  std::size_t scale_row_;
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint8_t> scales_;
  std::vector<QuantizationError> errors_;
  std::array<float, 256> values_{}; ///< Of codes.
};

} // namespace paceline::models
