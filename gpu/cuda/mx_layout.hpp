// The layout of microscaling weights in a tile. A step's codes belong to the lanes that hold the
// step's elements in bf16 (weight_element), so that each lane fetches what it decodes.
//
// A tile is spans of 64 inputs, two blocks, the last filled up with zeros. A span is its codes,
// then its scales, [output % 8][block][output / 8]: a lane's operand has outputs g and g + 8, and
// one word has their four scales. A lane has eight pairs of codes of each block, four for each of
// its two steps, one for each register of the operand. They are a run of bits / 2 words, whose
// lower halves have the first code of each pair, and upper halves the second:
// 8 bits: a half has two codes, 4 bits: four, from its highest bits on;
// 6 bits: a half has two, and the remaining bits hold the last two pairs.
#pragma once

#include "base/host_device.hpp"
#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/layout.hpp"
#include "gpu/mx.hpp"

#include <cstddef>
#include <cstdint>

namespace paceline::gpu::cuda::kernels {

inline constexpr int span_blocks = 2;
inline constexpr int span_inputs = span_blocks * mx_block;
inline constexpr int span_steps = span_inputs / step_inputs;
inline constexpr int block_steps = mx_block / step_inputs;

PACELINE_HOST_DEVICE constexpr int code_words(int bits) { ///< Words of a span's codes.
  return warp_lanes * bits;
}
PACELINE_HOST_DEVICE constexpr std::size_t span_bytes(int bits) {
  return std::size_t(code_words(bits)) * sizeof(std::uint32_t) +
         std::size_t(span_blocks * tile_outputs);
}

/// Returns the words from a span's start to one of a lane's words, of which there are as many as a
/// code has bits. The first four are together, so that one copy takes them, and so are the others.
PACELINE_HOST_DEVICE constexpr int code_word(int bits, int lane, int word) {
  return word < 4 ? lane * 4 + word : warp_lanes * 4 + lane * (bits - 4) + word - 4;
}

/// Returns the words from a span's start to the scales of outputs g and g + 8.
PACELINE_HOST_DEVICE constexpr int scale_word(int bits, int g) {
  return code_words(bits) + g;
}
/// Returns which byte of that word is the scale of an output's block of the span.
PACELINE_HOST_DEVICE constexpr int scale_byte(int output, int block) {
  return block * 2 + output / 8;
}

/// Calls add(word, bits) for the one or two words of a run that have a part of the code of pair
/// `pair`; bits: in their place in the half.
template <class Add>
void each_part(int bits, int pair, unsigned code, const Add& add) {
  if (bits == 6 && pair == 6) {
    add(0, code >> 2);
    add(1, (code & 3) << 2);
  } else if (bits == 6 && pair == 7) {
    add(1, code >> 4);
    add(2, code & 15);
  } else {
    const int each = 16 / bits;
    add(pair / each, code << (16 - bits - pair % each * bits));
  }
}

} // namespace paceline::gpu::cuda::kernels
