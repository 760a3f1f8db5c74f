#include "gpu/cpu/avx512_rows.hpp"

#include "gpu/cpu/avx512_tiles.hpp"

#if defined(__x86_64__)

PACELINE_TARGET_BEGIN(PACELINE_AVX512_TARGET)

#define UNROLL _Pragma("GCC unroll 16")

namespace paceline::gpu::cpu {
namespace {

/// Moves v[i][j] to v[j][i].
inline void transpose(__m512i (&v)[16]) {
  __m512i t[16];
  UNROLL for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  UNROLL for (int i = 0; i < 16; i += 4) UNROLL for (int j = 0; j < 2; ++j) {
    v[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + j + 2]);
    v[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + j + 2]);
  }
  UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 2; ++j) {
    t[i + 8 * j] = _mm512_shuffle_i32x4(v[8 * j + i], v[8 * j + i + 4], 0x88);
    t[i + 8 * j + 4] = _mm512_shuffle_i32x4(v[8 * j + i], v[8 * j + i + 4], 0xDD);
  }
  UNROLL for (int i = 0; i < 4; ++i) UNROLL for (int j = 0; j < 2; ++j) {
    v[i + 4 * j] = _mm512_shuffle_i32x4(t[i + 4 * j], t[i + 4 * j + 8], 0x88);
    v[i + 4 * j + 8] = _mm512_shuffle_i32x4(t[i + 4 * j], t[i + 4 * j + 8], 0xDD);
  }
}

void stage_rows(std::byte* to, Tensor in, int first, int rows, int padded) {
  const __mmask16 wanted = first_lanes(rows);
  for (int i = 0; i < padded; i += 32) {
    if (rows == 1) {
      _mm512_storeu_si512(to, pairs_of_row(in.row(first) + i, in.cols - i));
      to += line;
      continue;
    }
    __m512i v[16];
    UNROLL for (int r = 0; r < 16; ++r) v[r] =
        r < rows ? pairs_of_row(in.row(first + r) + i, in.cols - i) : _mm512_setzero_si512();
    transpose(v);
    UNROLL for (int pair = 0; pair < 16; ++pair, to += std::size_t(rows) * pair_bytes)
        _mm512_mask_storeu_epi32(to, wanted, v[pair]);
  }
}

} // namespace

void avx512_stage_pairs(std::byte* staged, Tensor in, int padded, int first, int last) {
  const std::size_t row_bytes = std::size_t(padded) / 2 * pair_bytes;
  for (int r = first; r < last; r += row_block)
    stage_rows(staged + std::size_t(r) * row_bytes, in, r, std::min(row_block, in.rows - r),
               padded);
}

} // namespace paceline::gpu::cpu

#undef UNROLL
PACELINE_TARGET_END

#endif
