// The layout of microscaling weights, and of scaled codes (gguf_blocks.hpp), in a tile. A step's
// codes belong to the lanes that hold the step's elements in bf16 (weight_element), so that each
// lane fetches what it decodes.
//
// A tile is spans of 64 inputs, the last filled up with zeros. A span is its codes, then what the
// codes are multiplied by. A lane has 16 codes of 32 inputs: four pairs for each of two steps, one
// for each register of the operand. They are a run of words, whose lower halves have the first code
// of each pair, and upper halves the second:
// 8 bits: a half has two codes, 4 bits: four, from its highest bits on;
// 6 bits: a half has two, and the remaining bits hold the last two pairs;
// 5 bits: as 4, and one more word has the highest bits of both runs, one for each pair.
//
// Microscaling: the scales, [output % 8][run][output / 8]: a lane's operand has outputs g and g +
// 8, and one word has their four scales. Scaled codes: a record for outputs g and g + 8
// (ScaledRecord).
#pragma once

#include "base/host_device.hpp"
#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/layout.hpp"
#include "gpu/gguf_blocks.hpp"
#include "gpu/mx.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace paceline::gpu::cuda::kernels {

inline constexpr int run_inputs = 32; ///< Inputs whose codes are a run of a lane's words.
static_assert(run_inputs == mx_block && run_inputs == gguf::small);
inline constexpr int run_steps = run_inputs / step_inputs;
inline constexpr int span_runs = 2;
inline constexpr int span_inputs = span_runs * run_inputs;
inline constexpr int span_steps = span_inputs / step_inputs;

PACELINE_HOST_DEVICE constexpr int code_words(int bits) { ///< Words of a span's codes.
  return warp_lanes * bits;
}

/// Returns the words from a span's start to one of a lane's words, of which there are as many as a
/// code has bits. The first four are together, so that one copy takes them, and so are the others.
PACELINE_HOST_DEVICE constexpr int code_word(int bits, int lane, int word) {
  return word < 4 ? lane * 4 + word : warp_lanes * 4 + lane * (bits - 4) + word - 4;
}

/// Returns the words from a span's start to the microscaling scales of outputs g and g + 8.
PACELINE_HOST_DEVICE constexpr int scale_word(int bits, int g) {
  return code_words(bits) + g;
}
/// Returns which byte of that word is the scale of an output's block of the span.
PACELINE_HOST_DEVICE constexpr int scale_byte(int output, int block) {
  return block * 2 + output / 8;
}

/// What scaled codes of a span are multiplied by, and what is added: a record for outputs g and
/// g + 8. It has halves, [number][block][output / 8], in which number 0 is the scale and number 1
/// the least value, if there are any; then, if blocks have several parts, a byte for each number
/// and part, [number][part][output / 8], to which 128 is added, so that no byte is negative.
struct ScaledRecord {
  int numbers;
  int blocks; ///< Blocks of a span; 1 if a block is several spans.
  int parts;  ///< Parts of a span that have bytes; 0 if each block is one part.

  static constexpr ScaledRecord of(const ScaledCodes& how) {
    return {how.least ? 2 : 1, std::max(1, span_inputs / how.block),
            how.parts() > 1 ? span_inputs / how.part : 0};
  }
  constexpr int words() const { return numbers * (blocks + parts / 2); }
  constexpr int half(int number, int block, int upper) const {
    return (number * blocks + block) * 2 + upper;
  }
  constexpr int byte(int number, int part, int upper) const {
    return numbers * blocks * 4 + (number * parts + part) * 2 + upper;
  }
};
/// Returns the words from a span's start to the record of outputs g and g + 8.
PACELINE_HOST_DEVICE constexpr int record_word(int bits, int record_words, int g) {
  return code_words(bits) + g * record_words;
}

/// Returns whether a format's weights are stored in spans; if so, the bits of a code, and the bytes
/// of a span.
constexpr bool in_spans(WeightFormat format) {
  return is_mx(format) || has_scaled_codes(format);
}
constexpr int code_bits(WeightFormat format) {
  return is_mx(format) ? element_bits(format) : scaled_codes(format).bits;
}
constexpr std::size_t span_bytes(WeightFormat format) {
  const int words = is_mx(format) ? 1 : ScaledRecord::of(scaled_codes(format)).words();
  return std::size_t(code_words(code_bits(format)) + tile_outputs / 2 * words) *
         sizeof(std::uint32_t);
}

/// Calls add(word, bits) for the one or two of a lane's words that have a part of the code of pair
/// `pair` of run `run`; bits: in their place in the half.
template <class Add>
void each_part(int bits, int run, int pair, unsigned code, const Add& add) {
  const int first = run * (bits / 2);
  if (bits == 6 && pair == 6) {
    add(first, code >> 2);
    add(first + 1, (code & 3) << 2);
  } else if (bits == 6 && pair == 7) {
    add(first + 1, code >> 4);
    add(first + 2, code & 15);
  } else if (bits == 5) {
    add(first + pair / 4, (code & 15) << (12 - pair % 4 * 4));
    add(4, code >> 4 << (run * 8 + pair));
  } else {
    const int each = 16 / bits;
    add(first + pair / each, code << (16 - bits - pair % each * bits));
  }
}

} // namespace paceline::gpu::cuda::kernels
