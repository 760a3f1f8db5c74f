// Spans of codes in kernels: copies of them, and a lane's own in its registers.
#pragma once

#include "gpu/cuda/block.cuh"
#include "gpu/cuda/span_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace paceline::gpu::cuda::kernels {

/// Returns two bf16 with these bits.
constexpr std::uint32_t both(std::uint32_t bits) {
  return bits * 0x00010001u;
}

/// Begins to copy words to shared memory, in the largest pieces of 4, 8 or 16 bytes that divide
/// them. Both sides are aligned to such a piece.
template <int words>
__device__ __forceinline__ void copy_words(std::uint32_t* to, const std::uint32_t* from) {
  constexpr int piece = words % 4 == 0 ? 4 : words % 2 == 0 ? 2 : 1;
#pragma unroll
  for (int i = 0; i < words; i += piece)
    ptx::copy_async<piece * 4>(to + i, from + i);
}

/// A lane's codes of a span, which is span_layout.hpp's words for these bits.
template <int bits>
struct LaneCodes {
  /// Begins to copy the lane's codes to the same places in shared memory.
  static __device__ void fetch(std::uint32_t* to, const std::uint32_t* from, int lane) {
    copy_words<4>(to + code_word(bits, lane, 0), from + code_word(bits, lane, 0));
    if constexpr (bits > 4)
      copy_words<bits - 4>(to + code_word(bits, lane, 4), from + code_word(bits, lane, 4));
  }

  __device__ void load(const std::uint32_t* span, int lane) {
    const uint4 first = *reinterpret_cast<const uint4*>(span + code_word(bits, lane, 0));
    words[0] = first.x, words[1] = first.y, words[2] = first.z, words[3] = first.w;
    if constexpr (bits > 4) {
      using Rest =
          std::conditional_t<bits == 8, uint4, std::conditional_t<bits == 6, uint2, std::uint32_t>>;
      const Rest rest = *reinterpret_cast<const Rest*>(span + code_word(bits, lane, 4));
      if constexpr (bits == 5)
        words[4] = rest;
      else
        words[4] = rest.x, words[5] = rest.y;
      if constexpr (bits == 8)
        words[6] = rest.z, words[7] = rest.w;
    }
  }

  /// Returns the words of a run.
  __device__ const std::uint32_t* run(int index) const { return words + index * (bits / 2); }

  std::uint32_t words[bits];
};

} // namespace paceline::gpu::cuda::kernels
