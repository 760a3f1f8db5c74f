// Encodes rows of a weight as blocks of a microscaling format, in the bytes that files have, and
// measures the rounding error.
#pragma once

#include "gpu/tensor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::models {

/// The rounding error of single weights, or of all of a kind.
struct QuantizationError {
  std::uint64_t weights = 0;
  double squared = 0;      ///< Sum of the squared differences.
  double squared_size = 0; ///< Sum of the squared weights.
  float largest = 0;       ///< Largest difference of a weight.

  void add(float weight, float rounded) {
    const float off = std::abs(weight - rounded);
    ++weights;
    squared += double(off) * double(off);
    squared_size += double(weight) * double(weight);
    largest = std::max(largest, off); // keeps NaN
  }
  void add(const QuantizationError& other);
  double mean_squared() const { return weights ? squared / double(weights) : 0; }
  /// Returns the mean square over that of the weights: 0.001 is 30 dB below them.
  double relative() const { return squared_size > 0 ? squared / squared_size : 0; }
};

/// Returns the bytes of a row's codes for `inputs`; the last block is filled up.
std::size_t code_row_bytes(WeightFormat format, int inputs);

/// Encodes some rows of a matrix at a time. Threads: one; it divides its work among the cores.
class RowEncoder {
public:
  RowEncoder(gpu::Quantization how, int cols, int rows_at_once);

  std::size_t code_row() const { return code_row_; } ///< Bytes of a row's codes.
  std::size_t scale_row() const { return scale_row_; }

  /// Encodes rows. from: [count, cols] of `dtype`; count: at most rows_at_once.
  void encode(gpu::DType dtype, const std::byte* from, int count);

  /// These return the first `rows` of the rows that were encoded last.
  std::span<const std::byte> codes(int rows) const {
    return std::as_bytes(std::span(codes_).first(std::size_t(rows) * code_row_));
  }
  std::span<const std::byte> scales(int rows) const {
    return std::as_bytes(std::span(scales_).first(std::size_t(rows) * scale_row_));
  }
  /// Returns a row's error; `largest` is NaN if the row has a weight that is not finite.
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
  std::array<float, 256> values_{}; ///< The values of codes.
};

} // namespace paceline::models
