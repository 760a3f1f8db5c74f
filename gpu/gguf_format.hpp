// The types of blocks in which GGUF files store weights, and how they lie there; gguf_blocks.hpp
// decodes them. The layouts are those of ggml (https://github.com/ggml-org/ggml).
#pragma once

#include "paceline/weight_format.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace paceline::gpu {

/// Every type of block that is read. The values are those that files have.
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

inline constexpr std::array gguf_formats{
    GgufFormat::q4_0,   GgufFormat::q4_1,   GgufFormat::q5_0,  GgufFormat::q5_1, GgufFormat::q8_0,
    GgufFormat::q2_k,   GgufFormat::q3_k,   GgufFormat::q4_k,  GgufFormat::q5_k, GgufFormat::q6_k,
    GgufFormat::iq4_nl, GgufFormat::iq4_xs, GgufFormat::mxfp4, GgufFormat::nvfp4};

/// Numbers are little-endian; `half` is an IEEE half's bits. An element i < 16 of a run of 32 whose
/// codes are 16 bytes is in the low bits of byte i, and element 16 + i in the high ones.
namespace gguf {

inline constexpr int small = 32;  ///< Elements of a small block,
inline constexpr int large = 256; ///< and of a large one.
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
/// (code - 16) * scale; the fifth bits are bits of `high`.
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
/// code * scale - least, each of 16 elements: four bits of `scales` times `scale`, four bits times
/// `least`. 32 bytes of codes are four runs of 32 elements, from the lowest bits on.
struct Q2_K {
  std::uint8_t scales[large / 16];
  std::uint8_t codes[large / 4];
  half scale;
  half least;
};
/// (code - 4) * scale, each of 16 elements; the third bits are in `high`, a bit of all 32 bytes
/// being a run of 32 elements. Six bits of a scale, less 32: four in the first eight bytes, two in
/// the last four.
struct Q3_K {
  std::uint8_t high[large / 8];
  std::uint8_t codes[large / 4];
  std::uint8_t scales[12];
  half scale;
};
/// code * scale - least, each of 32 elements, in six bits each (`KScales`).
struct Q4_K {
  half scale;
  half least;
  std::uint8_t scales[12];
  std::uint8_t codes[large / 2];
};
/// The same; the fifth bits are in `high`, as in Q3_K.
struct Q5_K {
  half scale;
  half least;
  std::uint8_t scales[12];
  std::uint8_t high[large / 8];
  std::uint8_t codes[large / 2];
};
/// (code - 32) * scale, each of 16 elements. Halves of 128: 64 bytes of low bits, 32 of high ones.
struct Q6_K {
  std::uint8_t low[large / 2];
  std::uint8_t high[large / 4];
  std::int8_t scales[large / 16];
  half scale;
};
/// iq4_values[code] * scale
struct Iq4Nl {
  half scale;
  std::uint8_t codes[small / 2];
};
/// The same, each of 32 elements with six bits of a scale, less 32.
struct Iq4Xs {
  half scale;
  std::uint8_t high[2];
  std::uint8_t low[large / 64];
  std::uint8_t codes[large / 2];
};
/// E2M1 times a power of two (E8M0), as in gpu/mx.hpp; only the order of the codes is another one.
struct Mxfp4 {
  std::uint8_t scale;
  std::uint8_t codes[small / 2];
};
/// E2M1, each of 16 elements times a scale in E4M3 without a sign.
struct Nvfp4 {
  std::uint8_t scales[4];
  std::uint8_t codes[32];
};

} // namespace gguf

const char* to_string(GgufFormat format) noexcept; ///< "q4_k"
/// Of a file's number for it; none: it is no type of block that is read.
std::optional<GgufFormat> gguf_format(std::uint32_t type) noexcept;
/// As what such blocks are multiplied with; none: no kernel does it (NVFP4).
std::optional<WeightFormat> weight_format(GgufFormat format) noexcept;
/// Formats whose weights are ScaledCodes.
constexpr bool has_scaled_codes(WeightFormat format) {
  return format >= WeightFormat::q4_0;
}

} // namespace paceline::gpu
