#include "models/row_encoder.hpp"

#include "gpu/mx.hpp"
#include "gpu/shares.hpp"
#include "models/checkpoint/widen.hpp"

#include <algorithm>
#include <limits>

namespace paceline::models {
namespace {

/// Adds the rounding errors of a block's elements. numbers: the values of codes; values: [count]
void measure(const gpu::MxBlock& block, const std::array<float, 256>& numbers, const float* values,
             std::size_t count, QuantizationError& error) {
  if (block.scale == gpu::mx_nan_scale)
    error.largest = std::numeric_limits<float>::quiet_NaN();
  const float scale = gpu::decode_scale(block.scale);
  for (std::size_t i = 0; i < count; ++i)
    error.add(values[i], numbers[block.codes[i]] * scale);
}

} // namespace

void QuantizationError::add(const QuantizationError& other) {
  weights += other.weights;
  squared += other.squared;
  squared_size += other.squared_size;
  largest = std::max(largest, other.largest);
}

std::size_t code_row_bytes(WeightFormat format, int inputs) {
  return std::size_t(gpu::blocks_of(inputs)) *
         std::size_t(gpu::code_bytes(gpu::element_bits(format)));
}

RowEncoder::RowEncoder(gpu::Quantization how, int cols, int rows_at_once)
    : how_(how), bits_(gpu::element_bits(how.format)), cols_(cols),
      code_row_(code_row_bytes(how.format, cols)), scale_row_(std::size_t(gpu::blocks_of(cols))),
      codes_(std::size_t(rows_at_once) * code_row_),
      scales_(std::size_t(rows_at_once) * scale_row_), errors_(std::size_t(rows_at_once)) {
  for (int code = 0; code < 1 << bits_; ++code)
    values_[std::size_t(code)] =
        gpu::decode_element(gpu::element_of(how.format), std::uint8_t(code));
}

void RowEncoder::encode(gpu::DType dtype, const std::byte* from, int count) {
  const std::size_t row_size = std::size_t(cols_) * gpu::size_of(dtype);
  gpu::for_shares(count, std::size_t(count) * row_size, [&](int begin, int end) {
    for (auto r = std::size_t(begin); r < std::size_t(end); ++r)
      errors_[r] = encode_row(widen(dtype, from + r * row_size, std::size_t(cols_)),
                              codes_.data() + r * code_row_, scales_.data() + r * scale_row_);
  });
}

QuantizationError RowEncoder::encode_row(const std::vector<float>& row, std::uint8_t* codes,
                                         std::uint8_t* scales) const {
  QuantizationError error;
  for (std::size_t first = 0; first < row.size(); first += gpu::mx_block) {
    float values[gpu::mx_block] = {};
    const std::size_t count = std::min<std::size_t>(gpu::mx_block, row.size() - first);
    std::copy_n(row.begin() + std::ptrdiff_t(first), count, values);
    const gpu::MxBlock block = gpu::encode_block(how_.format, how_.scales, values);
    *scales++ = block.scale;
    gpu::store_codes(bits_, block.codes.data(), codes);
    codes += gpu::code_bytes(bits_);
    measure(block, values_, values, count, error);
  }
  return error;
}

} // namespace paceline::models
