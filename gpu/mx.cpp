#include "gpu/mx.hpp"

#include "base/bf16.hpp"
#include "gpu/gguf_format.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <type_traits>

namespace paceline::gpu {
namespace {

constexpr int exponent_bias = 127; ///< Bias of E8M0 and of f32.
constexpr int f32_mantissa_bits = 23;

std::uint32_t bits_of(float x) {
  return std::bit_cast<std::uint32_t>(x);
}

/// Returns 2^exponent, which must be a normal f32.
float power_of_two(int exponent) {
  return std::bit_cast<float>(std::uint32_t(exponent + exponent_bias) << f32_mantissa_bits);
}

/// Encodes a block in one loop without branches, which compilers vectorise. unit: 2^-scale. errors:
/// each element's rounding error, in units of the scale.
template <const MxElement& E>
void encode_float(const float* values, float unit, std::uint8_t* codes, float* errors) {
  constexpr int least_exponent = 1 - E.bias;
  constexpr float integers = 0x1p23f; // Adding it rounds smaller numbers to whole, ties to even.
  for (int i = 0; i < mx_block; ++i) {
    const float x = values[i] * unit;
    const std::uint32_t magnitude = bits_of(x) & 0x7FFFFFFFu;
    const int exponent =
        std::max(int(magnitude >> f32_mantissa_bits) - exponent_bias, least_exponent);
    const float shown = std::bit_cast<float>(magnitude) * power_of_two(E.mantissa_bits - exponent);
    const std::uint32_t whole = bits_of(shown + integers) - bits_of(integers);
    // A mantissa that rounds up to the next power of two carries into the exponent.
    const int code = ((exponent - least_exponent) << E.mantissa_bits) + int(whole);
    const float kept =
        std::min(float(int(whole)) * power_of_two(exponent - E.mantissa_bits), E.largest());
    errors[i] = std::bit_cast<float>(magnitude) - kept;
    const int sign = int(bits_of(x) >> 31) * E.sign_bit();
    codes[i] = std::uint8_t(std::min(code, E.largest_code) | sign);
  }
}

void encode_integer(const float* values, float unit, std::uint8_t* codes, float* errors) {
  constexpr float integers = 0x1.8p23f;
  constexpr float units = 64;
  for (int i = 0; i < mx_block; ++i) {
    const float x = values[i] * unit * units;
    const int whole = int(bits_of(x + integers) - bits_of(integers));
    const int kept = std::clamp(whole, -int8.largest_code, int8.largest_code);
    errors[i] = (x - float(kept)) / units;
    codes[i] = std::uint8_t(kept);
  }
}

void encode_elements(WeightFormat format, const float* values, int exponent, std::uint8_t* codes,
                     float* errors) {
  const float unit = std::ldexp(1.0f, -exponent);
  switch (format) {
  case WeightFormat::mxfp8: return encode_float<e4m3>(values, unit, codes, errors);
  case WeightFormat::mxfp8_e5m2: return encode_float<e5m2>(values, unit, codes, errors);
  case WeightFormat::mxfp6: return encode_float<e2m3>(values, unit, codes, errors);
  case WeightFormat::mxfp6_e3m2: return encode_float<e3m2>(values, unit, codes, errors);
  case WeightFormat::mxfp4: return encode_float<e2m1>(values, unit, codes, errors);
  case WeightFormat::mxint8: return encode_integer(values, unit, codes, errors);
  default: break;
  }
  assert(false && "no microscaling format");
}

/// Encodes with the scale 2^exponent. Returns the squared error, summed by a tree in a fixed order.
double encode_with(WeightFormat format, const float* values, int exponent, MxBlock& block) {
  float errors[mx_block];
  block.scale = std::uint8_t(exponent + exponent_bias);
  encode_elements(format, values, exponent, block.codes.data(), errors);
  for (float& error : errors)
    error *= error;
  for (int width = mx_block / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i)
      errors[i] += errors[i + width];
  return std::ldexp(double(errors[0]), 2 * exponent);
}

template <class T>
void widen_run(const T* from, int count, float* values) {
  for (int i = 0; i < count; ++i)
    if constexpr (std::is_same_v<T, float>)
      values[i] = from[i];
    else
      values[i] = base::to_float(from[i]);
}

/// Converts `count` elements of a row, from `first` on, to f32.
void widen(const HostMatrix& matrix, int row, int first, int count, float* values) {
  const std::size_t at = std::size_t(row) * std::size_t(matrix.cols) + std::size_t(first);
  switch (matrix.dtype) {
  case DType::f32: return widen_run(static_cast<const float*>(matrix.data) + at, count, values);
  case DType::f16: return widen_run(static_cast<const base::f16*>(matrix.data) + at, count, values);
  case DType::bf16: widen_run(static_cast<const base::bf16*>(matrix.data) + at, count, values);
  }
}

} // namespace

float decode_element(const MxElement& element, std::uint8_t code) {
  if (element.integer())
    return std::ldexp(float(std::int8_t(code)), -element.mantissa_bits);
  const int mantissa = code & ((1 << element.mantissa_bits) - 1);
  const int exponent = (code & (element.sign_bit() - 1)) >> element.mantissa_bits;
  float value = exponent == 0
                    ? std::ldexp(float(mantissa), 1 - element.bias - element.mantissa_bits)
                    : std::ldexp(float(mantissa + (1 << element.mantissa_bits)),
                                 exponent - element.bias - element.mantissa_bits);
  if ((code & (element.sign_bit() - 1)) > element.largest_code)
    value = element.mantissa_bits == e5m2.mantissa_bits && mantissa == 0
                ? std::numeric_limits<float>::infinity()
                : std::numeric_limits<float>::quiet_NaN();
  return code & element.sign_bit() ? -value : value;
}

float decode_scale(std::uint8_t scale) {
  return scale == mx_nan_scale ? std::numeric_limits<float>::quiet_NaN()
                               : std::ldexp(1.0f, int(scale) - exponent_bias);
}

MxBlock encode_block(WeightFormat format, ScaleChoice choice, const float* values) {
  MxBlock block;
  std::uint32_t largest = 0; // Magnitudes are ordered like their bits.
  for (int i = 0; i < mx_block; ++i)
    largest = std::max(largest, bits_of(values[i]) & 0x7FFFFFFFu);
  if (largest >= bits_of(std::numeric_limits<float>::infinity())) {
    block.scale = mx_nan_scale;
    return block;
  }
  const MxElement& element = element_of(format);
  const int floor = std::max(
      int(largest >> f32_mantissa_bits) - exponent_bias - element.largest_exponent, -exponent_bias);
  const double top = std::ldexp(double(std::bit_cast<float>(largest)), -floor);
  const bool cut = top > double(element.largest()) && floor < exponent_bias;
  if (!cut || choice != ScaleChoice::search) {
    encode_with(format, values, cut && choice == ScaleChoice::ceil ? floor + 1 : floor, block);
    return block;
  }
  MxBlock above;
  const double error = encode_with(format, values, floor, block);
  return encode_with(format, values, floor + 1, above) < error ? above : block;
}

void decode_block(WeightFormat format, const MxBlock& block, float* values) {
  const float scale = decode_scale(block.scale);
  for (int i = 0; i < mx_block; ++i)
    values[i] = decode_element(element_of(format), block.codes[std::size_t(i)]) * scale;
}

void store_codes(int bits, const std::uint8_t* codes, std::uint8_t* bytes) {
  unsigned held = 0; // The codes' bits that are in no byte yet.
  int held_bits = 0;
  for (int i = 0; i < mx_block; ++i) {
    held |= unsigned(codes[i]) << held_bits;
    for (held_bits += bits; held_bits >= 8; held_bits -= 8, held >>= 8)
      *bytes++ = std::uint8_t(held);
  }
}

void load_codes(int bits, const std::uint8_t* bytes, std::uint8_t* codes) {
  unsigned held = 0;
  int held_bits = 0;
  for (int i = 0; i < mx_block; ++i, held >>= bits, held_bits -= bits) {
    if (held_bits < bits) {
      held |= unsigned(*bytes++) << held_bits;
      held_bits += 8;
    }
    codes[i] = std::uint8_t(held & ((1u << bits) - 1));
  }
}

MxBlock block_of(const HostMatrix& matrix, int row, int first) {
  if (matrix.blocks) {
    const auto index =
        std::size_t(row) * std::size_t(blocks_of(matrix.cols)) + std::size_t(first / mx_block);
    const gguf::Mxfp4& stored = static_cast<const gguf::Mxfp4*>(matrix.data)[index];
    MxBlock block;
    block.scale = stored.scale;
    for (std::size_t i = 0; i < mx_block / 2; ++i) {
      block.codes[i] = stored.codes[i] & 0xF;
      block.codes[i + mx_block / 2] = stored.codes[i] >> 4;
    }
    return block;
  }
  if (matrix.block_scales) {
    const int bits = element_bits(matrix.format());
    const std::size_t index =
        std::size_t(row) * std::size_t(blocks_of(matrix.cols)) + std::size_t(first / mx_block);
    MxBlock block;
    block.scale = matrix.block_scales[index];
    load_codes(
        bits, static_cast<const std::uint8_t*>(matrix.data) + index * std::size_t(code_bytes(bits)),
        block.codes.data());
    return block;
  }
  float values[mx_block] = {};
  widen(matrix, row, first, std::min(mx_block, matrix.cols - first), values);
  return encode_block(matrix.format(), matrix.quantization->scales, values);
}

} // namespace paceline::gpu
