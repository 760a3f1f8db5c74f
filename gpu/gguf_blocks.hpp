// The meaning of the bytes of GGUF's blocks, for the host, one block at a time. Kernels that
// multiply by such blocks compute the same numbers in their own ways.
#pragma once

#include "gpu/gguf_format.hpp"

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::gpu {

/// Return the number of elements of one block, and its bytes.
int block_elements(GgufFormat format) noexcept;
std::size_t block_bytes(GgufFormat format) noexcept;

/// Computes exactly what the bytes mean, rounded to f32 once. block: [block_bytes], with any
/// alignment; values: [block_elements].
void decode_block(GgufFormat format, const std::byte* block, float* values);

/// How the elements of a format are coded; all formats but MXFP4 and NVFP4 have this form. An
/// element is the integer of its code times its part's scale, plus its part's least value if there
/// is one. A scale or least value is a half of the block, times an integer of the part if blocks
/// have several parts.
struct ScaledCodes {
  GgufFormat format;
  int bits;                            ///< Bits of a code in packed weights: 4, 5, 6 or 8.
  int part;                            ///< Elements that share a scale: 16 or 32.
  int block;                           ///< Elements that share the halves: 32 or 256.
  bool least;                          ///< Whether there are least values.
  std::array<std::int8_t, 64> numbers; ///< The integer of each code; codes of 8 bits are their own.

  constexpr int number(std::uint8_t code) const {
    return bits == 8 ? std::int8_t(code) : numbers[code];
  }
  constexpr int parts() const { return block / part; }
};

/// Returns the numbers of codes that count steps from -offset on.
constexpr std::array<std::int8_t, 64> steps_from(int offset) {
  std::array<std::int8_t, 64> out{};
  for (int i = 0; i < 64; ++i)
    out[std::size_t(i)] = std::int8_t(i - offset);
  return out;
}
inline constexpr std::array<std::int8_t, 64> iq4_numbers{-127, -104, -83, -65, -49, -35, -22, -10,
                                                         1,    13,   25,  38,  53,  69,  89,  113};

/// How each format is coded, in the order of WeightFormat, from q4_0 on.
inline constexpr ScaledCodes scaled_formats[] = {
    {GgufFormat::q4_0, 4, 32, gguf::small, false, steps_from(8)},
    {GgufFormat::q4_1, 4, 32, gguf::small, true, steps_from(0)},
    {GgufFormat::q5_0, 5, 32, gguf::small, false, steps_from(16)},
    {GgufFormat::q5_1, 5, 32, gguf::small, true, steps_from(0)},
    {GgufFormat::q8_0, 8, 32, gguf::small, false, {}},
    {GgufFormat::q2_k, 4, 16, gguf::large, true, steps_from(0)},
    {GgufFormat::q3_k, 4, 16, gguf::large, false, steps_from(4)},
    {GgufFormat::q4_k, 4, 32, gguf::large, true, steps_from(0)},
    {GgufFormat::q5_k, 5, 32, gguf::large, true, steps_from(0)},
    {GgufFormat::q6_k, 6, 16, gguf::large, false, steps_from(32)},
    {GgufFormat::iq4_nl, 4, 32, gguf::small, false, iq4_numbers},
    {GgufFormat::iq4_xs, 4, 32, gguf::large, false, iq4_numbers},
};

/// Returns how a format for which has_scaled_codes is true is coded.
constexpr const ScaledCodes& scaled_codes(WeightFormat format) noexcept {
  assert(has_scaled_codes(format));
  return scaled_formats[int(format) - int(WeightFormat::q4_0)];
}

/// A block of such a format, unpacked.
struct ScaledBlock {
  gguf::half scale = 0;
  gguf::half least = 0;                               ///< Is added (the file's may be subtracted).
  std::array<std::int8_t, gguf::large / 16> scales{}; ///< Each part's scale; 1 for a single part.
  std::array<std::int8_t, gguf::large / 16> leasts{};
  std::array<std::uint8_t, gguf::large> codes{};
};
/// Unpacks blocks, each `stride` bytes behind the one before, aligned as their halves are. What
/// their format has none of stays as it is in `to`: other parts, other codes.
void load_blocks(const ScaledCodes& how, const std::byte* first, std::size_t stride,
                 std::span<ScaledBlock> to);
/// Decodes an unpacked block. values: [how.block]
void decode_block(const ScaledCodes& how, const ScaledBlock& block, float* values);

} // namespace paceline::gpu
