// Common parts of products by vdpbf16ps (Intel SDM volume 2; also AMD from Zen 4 on). A lane is an
// output, and a step is a pair of inputs, broadcast from the staged rows. Every row of every
// product is summed over the pairs from 0 on, in one accumulator, so its bits do not depend on the
// number of rows.
#pragma once

#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/target.hpp"

#if defined(__x86_64__)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#ifdef __clang__ // Clang has no preferred width and uses all of it.
#define PACELINE_AVX512_TARGET "avx512f,avx512bw,avx512bf16"
#else
#define PACELINE_AVX512_TARGET "avx512f,avx512bw,avx512bf16,prefer-vector-width=512"
#endif

namespace paceline::gpu::cpu {

inline constexpr std::size_t pair_bytes = 4;                   // Bytes of two staged inputs.
inline constexpr std::size_t line = tile_outputs * pair_bytes; // A pair for each output of a tile.

} // namespace paceline::gpu::cpu

PACELINE_TARGET_BEGIN(PACELINE_AVX512_TARGET)

namespace paceline::gpu::cpu {

inline __m512bh broadcast(const std::byte* pair) {
  return __m512bh(_mm512_set1_epi32(*reinterpret_cast<const int*>(pair)));
}
inline __attribute__((always_inline)) void prefetch(const std::byte* at) {
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
}

/// Returns a mask of the first `count` of 16 lanes, of none or of all.
inline __mmask16 first_lanes(int count) {
  return __mmask16((1u << std::clamp(count, 0, 16)) - 1u);
}
/// Rounds 16 pairs of inputs of one row to bf16, with zeros past `inputs`.
inline __m512i pairs_of_row(const float* in, int inputs) {
  const __m512 low = _mm512_maskz_loadu_ps(first_lanes(inputs), in);
  const __m512 high = _mm512_maskz_loadu_ps(first_lanes(inputs - 16), in + 16);
  return __m512i(_mm512_cvtne2ps_pbh(high, low));
}

/// Stores or adds the sums of one row and tile, up to the last output.
inline void finish(Tensor out, const PackedWeight& w, bool add, __m512 sum, int row, int tile) {
  const int first = tile * tile_outputs;
  float* to = out.row(row) + first;
  const __mmask16 wanted = first_lanes(w.outputs() - first);
  if (add)
    sum = _mm512_add_ps(_mm512_maskz_loadu_ps(wanted, to), sum);
  _mm512_mask_storeu_ps(to, wanted, sum);
}

} // namespace paceline::gpu::cpu

PACELINE_TARGET_END

#endif
