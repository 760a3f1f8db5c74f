// The types of blocks in which GGUF files store weights, and their layouts; gguf_blocks.hpp decodes
// them. The layouts are those of ggml (https://github.com/ggml-org/ggml).
#pragma once

#include "paceline/weight_format.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace paceline::gpu {

/// The types of blocks that are read. The values are the type numbers in files.
enum class GgufFormat : std::uint32_t {
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23,
  mxfp4 = 39,
  nvfp4 = 40,
};

/// All of them; formats that are a WeightFormat of their own come first, in its order.
inline constexpr std::array gguf_formats{
    GgufFormat::q4_0,   GgufFormat::q4_1,   GgufFormat::q5_0,  GgufFormat::q5_1, GgufFormat::q8_0,
    GgufFormat::q2_k,   GgufFormat::q3_k,   GgufFormat::q4_k,  GgufFormat::q5_k, GgufFormat::q6_k,
    GgufFormat::iq4_nl, GgufFormat::iq4_xs, GgufFormat::mxfp4, GgufFormat::nvfp4};

/// Block layouts. Numbers are little-endian; `half` is an IEEE half's bits. Where a run of 32
/// elements has 16 bytes of codes, element i < 16 is in the low bits of byte i, and element 16 + i
/// in the high bits.
namespace gguf {

inline constexpr int small = 32;  ///< Elements of a small block.
inline constexpr int large = 256; ///< Elements of a large block.
using half = std::uint16_t;

/// (code - 8) * scale
struct Q4_0 {
  half scale;
  std::uint8_t codes[small / 2];
};
/// code * scale + least
struct Q4_1 {
  half scale;
  half least;
  std::uint8_t codes[small / 2];
};
/// (code - 16) * scale; `high` has the fifth bits of the codes.
struct Q5_0 {
  half scale;
  std::uint8_t high[small / 8];
  std::uint8_t codes[small / 2];
};
/// code * scale + least
struct Q5_1 {
  half scale;
  half least;
  std::uint8_t high[small / 8];
  std::uint8_t codes[small / 2];
};
/// code * scale
struct Q8_0 {
  half scale;
  std::int8_t codes[small];
};
/// code * scale - least, both for 16 elements: four bits of `scales` times `scale`, and four bits
/// times `least`. 32 bytes of codes are four runs of 32 elements, from the lowest bits on.
struct Q2_K {
  std::uint8_t scales[large / 16];
  std::uint8_t codes[large / 4];
  half scale;
  half least;
};
/// (code - 4) * scale, with a scale for 16 elements. `high` has the third bits: bit n of all 32
/// bytes is the n-th run of 32 elements. A scale has six bits, less 32: four in the first eight
/// bytes of `scales`, two in the last four.
struct Q3_K {
  std::uint8_t high[large / 8];
  std::uint8_t codes[large / 4];
  std::uint8_t scales[12];
  half scale;
};
/// code * scale - least, each for 32 elements and of six bits (set_six_bits in gguf_blocks.cpp).
struct Q4_K {
  half scale;
  half least;
  std::uint8_t scales[12];
  std::uint8_t codes[large / 2];
};
/// The same as Q4_K, with the fifth bits in `high`, laid out as in Q3_K.
struct Q5_K {
  half scale;
  half least;
  std::uint8_t scales[12];
  std::uint8_t high[large / 8];
  std::uint8_t codes[large / 2];
};
/// (code - 32) * scale, each for 16 elements; 128 elements have 64 bytes of `low`, 32 of `high`.
struct Q6_K {
  std::uint8_t low[large / 2];
  std::uint8_t high[large / 4];
  std::int8_t scales[large / 16];
  half scale;
};
/// iq4_numbers[code] * scale (gguf_blocks.hpp)
struct Iq4Nl {
  half scale;
  std::uint8_t codes[small / 2];
};
/// The same as Iq4Nl, with scales for 32 elements, of six bits, less 32.
struct Iq4Xs {
  half scale;
  std::uint8_t high[2];
  std::uint8_t low[large / 64];
  std::uint8_t codes[large / 2];
};
/// E2M1 times a power of two (E8M0), as in gpu/mx.hpp, with the codes in another order.
struct Mxfp4 {
  std::uint8_t scale;
  std::uint8_t codes[small / 2];
};
/// E2M1 times a scale in E4M3 without a sign, one for each 16 elements.
struct Nvfp4 {
  std::uint8_t scales[4];
  std::uint8_t codes[32];
};

} // namespace gguf

const char* to_string(GgufFormat format) noexcept; ///< "q4_k"
/// Returns the format with this number in files; none if such blocks are not read.
std::optional<GgufFormat> gguf_format(std::uint32_t type) noexcept;
/// Returns the format in which kernels multiply by such blocks; none if no kernel does (NVFP4).
std::optional<WeightFormat> weight_format(GgufFormat format) noexcept;
/// Returns whether the format's weights are coded as ScaledCodes says.
constexpr bool has_scaled_codes(WeightFormat format) {
  return format >= WeightFormat::q4_0;
}

} // namespace paceline::gpu
