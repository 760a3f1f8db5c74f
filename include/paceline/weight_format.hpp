// How the numbers of a weight matrix are written, and those that it is multiplied with or that are
// kept of them.
#pragma once

#include <cstdint>

namespace paceline {

/// Three kinds of formats: plain numbers; the microscaling formats of OCP MX 1.0, in which 32
/// inputs of an output share a power of two and each element has as many bits as the name says; and
/// the blocks of GGUF files, which kernels multiply as they are, and which are never quantized to
/// here (docs/weights.md).
enum class WeightFormat : std::uint8_t {
  f32,
  f16,
  bf16,
  mxfp8,      ///< E4M3: sign, 4 bits of exponent, 3 of mantissa.
  mxfp8_e5m2, ///< E5M2
  mxfp6,      ///< E2M3
  mxfp6_e3m2, ///< E3M2
  mxfp4,      ///< E2M1
  mxint8,     ///< Two's complement in units of 2^-6.
  q4_0,       ///< Codes of 4 bits, 32 of which share a scale.
  q4_1,       ///< Same as q4_0, with a least value besides.
  q5_0,
  q5_1,
  q8_0,
  q2_k, ///< Blocks of 256, in which 16 share a scale and a least value of 4 bits.
  q3_k, ///< Blocks of 256, in which 16 share a scale of 6 bits.
  q4_k, ///< Blocks of 256, in which 32 share a scale and a least value of 6 bits.
  q5_k,
  q6_k,   ///< Blocks of 256, in which 16 share a scale of 8 bits.
  iq4_nl, ///< Codes of 16 unevenly spaced values; otherwise as q4_0.
  iq4_xs, ///< The same in blocks of 256, in which 32 share a scale of 6 bits.
};

/// "f32", "mxfp6-e3m2"
const char* to_string(WeightFormat format) noexcept;

/// What the numbers of a row are rounded to before they are multiplied with weights that are not
/// plain f32 or f16. Part of the numeric setting.
enum class Activations : std::uint8_t {
  automatic, ///< bf16; a draft's are int8 where its device is faster with it.
  bf16,
  /// Steps of 1/127 of the largest of 32 numbers, for weights whose codes are integers (MXFP4,
  /// MXFP6 E2M3, MXINT8 and GGUF's blocks); for others, bf16.
  int8,
};

/// "auto", "bf16", "int8"
const char* to_string(Activations activations) noexcept;

/// What a KV cache keeps keys and values as. Part of the numeric setting.
enum class KvCacheDtype : std::uint8_t {
  automatic,  ///< As `as_weights`; a draft's is int8 where its device is faster with it.
  as_weights, ///< As the embedding's weights are stored: f32 if these are f32 or f16, else bf16.
  /// Steps of 1/127 of the largest number of a head's key, or value, at a position, which has a
  /// scale in f32 beside them.
  int8,
};

/// "auto", "weights", "int8"
const char* to_string(KvCacheDtype dtype) noexcept;

/// Which power of two a block of a microscaling format shares.
enum class ScaleChoice : std::uint8_t {
  floor,  ///< The rule of OCP MX 1.0, section 6.3: the largest element may be cut off.
  ceil,   ///< The least power with which no element is cut off.
  search, ///< The one of these two with the least squared error.
};

/// "floor", "ceil", "search"
const char* to_string(ScaleChoice choice) noexcept;

} // namespace paceline
