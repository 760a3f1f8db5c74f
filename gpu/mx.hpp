// The microscaling formats of OCP MX 1.0: the meaning of an element's bits, and how floats become
// blocks, for the host, one block at a time. Kernels compute the same numbers in their own ways.
#pragma once

#include "gpu/tensor.hpp"

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace paceline::gpu {

/// Number of inputs that share a scale. A row that ends inside a block is padded with zeros.
inline constexpr int mx_block = 32;
/// The scale's code that makes a block NaN; any other is an exponent with a bias of 127 (E8M0).
inline constexpr std::uint8_t mx_nan_scale = 255;

/// How an element is coded, from its highest bit on: sign, exponent, mantissa. If it has no
/// exponent, it is two's complement in units of 2^-mantissa_bits.
struct MxElement {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  int largest_exponent; ///< Greatest e of elements m * 2^e, 1 <= m < 2.
  int largest_code;     ///< Code of the largest number, without its sign.

  constexpr bool integer() const { return exponent_bits == 0; }
  constexpr int bits() const { return integer() ? 8 : 1 + exponent_bits + mantissa_bits; }
  constexpr int sign_bit() const { return 1 << (bits() - 1); }
  /// Returns the largest element that is a number.
  constexpr float largest() const {
    const int whole = (largest_code & ((1 << mantissa_bits) - 1)) + (1 << mantissa_bits);
    return float(whole) * float(1 << largest_exponent) / float(1 << mantissa_bits);
  }
};

inline constexpr MxElement e4m3{4, 3, 7, 8, 0x7E};
inline constexpr MxElement e5m2{5, 2, 15, 15, 0x7B};
inline constexpr MxElement e2m3{2, 3, 1, 2, 0x1F};
inline constexpr MxElement e3m2{3, 2, 3, 4, 0x1F};
inline constexpr MxElement e2m1{2, 1, 1, 2, 0x7};
inline constexpr MxElement int8{0, 6, 0, 0, 0x7F};

inline constexpr std::array mx_formats{WeightFormat::mxfp8, WeightFormat::mxfp8_e5m2,
                                       WeightFormat::mxfp6, WeightFormat::mxfp6_e3m2,
                                       WeightFormat::mxfp4, WeightFormat::mxint8};
constexpr bool is_mx(WeightFormat format) {
  return format >= WeightFormat::mxfp8 && format <= WeightFormat::mxint8;
}
/// Returns the element of a microscaling format.
constexpr const MxElement& element_of(WeightFormat format) {
  switch (format) {
  case WeightFormat::mxfp8: return e4m3;
  case WeightFormat::mxfp8_e5m2: return e5m2;
  case WeightFormat::mxfp6: return e2m3;
  case WeightFormat::mxfp6_e3m2: return e3m2;
  case WeightFormat::mxfp4: return e2m1;
  default: break;
  }
  assert(format == WeightFormat::mxint8 && "no microscaling format");
  return int8;
}
/// Returns the bits of one element, without the block's scale; not for GGUF's formats.
constexpr int element_bits(WeightFormat format) {
  if (is_mx(format))
    return element_of(format).bits();
  return format == WeightFormat::f32 ? 32 : 16;
}

/// A block's scale, and the codes of its elements, each in the lowest bits of a byte.
struct MxBlock {
  std::uint8_t scale = 0;
  std::array<std::uint8_t, mx_block> codes{};
};

/// Decodes an element. E4M3's 0x7F is NaN; E5M2's 0x7C is infinity, and codes above it are NaN.
float decode_element(const MxElement& element, std::uint8_t code);
/// Decodes a scale; NaN for mx_nan_scale.
float decode_scale(std::uint8_t scale);

/// Rounds to nearest, ties to even, in units of the shared scale; what is too large becomes the
/// largest element. values: [mx_block]. A block with a NaN or an infinity becomes NaN.
MxBlock encode_block(WeightFormat format, ScaleChoice choice, const float* values);
/// Decodes a block. values: [mx_block]
void decode_block(WeightFormat format, const MxBlock& block, float* values);

/// Return the number of blocks for `inputs` inputs of an output, and the bytes of a block's codes.
constexpr int blocks_of(int inputs) {
  return (inputs + mx_block - 1) / mx_block;
}
constexpr int code_bytes(int bits) {
  return bits * mx_block / 8;
}
/// Write and read a block's codes as files have them: one after another, filling each byte from its
/// lowest bits on. bytes: [code_bytes(bits)]; codes: [mx_block]
void store_codes(int bits, const std::uint8_t* codes, std::uint8_t* bytes);
void load_codes(int bits, const std::uint8_t* bytes, std::uint8_t* codes);

/// Returns the block of a row from input `first` on, as it is stored or encoded from numbers.
/// matrix: has a microscaling format.
MxBlock block_of(const HostMatrix& matrix, int row, int first);

} // namespace paceline::gpu
