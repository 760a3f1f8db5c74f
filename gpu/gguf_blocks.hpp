// What the bytes of GGUF's blocks mean. All of it on the host and by itself; kernels that multiply
// by such blocks have their own ways to the same numbers.
#pragma once

#include "gpu/gguf_format.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace paceline::gpu {

/// Elements of one block, and its bytes.
int block_elements(GgufFormat format) noexcept;
std::size_t block_bytes(GgufFormat format) noexcept;

/// Exactly what the bytes mean, rounded to f32 once. block: [block_bytes], of any alignment;
/// values: [block_elements].
void decode_block(GgufFormat format, const std::byte* block, float* values);

/// What all formats but MXFP4 and NVFP4 have in common: an element is a small integer, by its code,
/// times its part's scale, plus its part's least value, where there is one. Either is a half of the
/// block, times an integer of the part where blocks have several parts.
struct ScaledCodes {
  GgufFormat format;
  int bits;                            ///< Of a code in packed weights: 4, 5, 6 or 8.
  int part;                            ///< Elements that share a scale: 16 or 32.
  int block;                           ///< Elements that share the halves: 32 or 256.
  bool least;                          ///< Whether there are least values.
  std::array<std::int8_t, 64> numbers; ///< By codes; those of 8 bits are their own.

  constexpr int number(std::uint8_t code) const {
    return bits == 8 ? std::int8_t(code) : numbers[code];
  }
  constexpr int parts() const { return block / part; }
};

/// format: one that has_scaled_codes.
const ScaledCodes& scaled_codes(WeightFormat format) noexcept;

/// A block of such a format, taken apart.
struct ScaledBlock {
  gguf::half scale = 0;
  gguf::half least = 0;                               ///< To be added.
  std::array<std::int8_t, gguf::large / 16> scales{}; ///< Of parts; 1 where there is one.
  std::array<std::int8_t, gguf::large / 16> leasts{};
  std::array<std::uint8_t, gguf::large> codes{};
};
ScaledBlock load_block(const ScaledCodes& how, const std::byte* block);
/// values: [block]
void decode_block(const ScaledCodes& how, const ScaledBlock& block, float* values);

} // namespace paceline::gpu
