// Sums of products of bf16 pairs in registers, each in an order of its own.
#pragma once

#include "gpu/cpu/avx512_words.hpp"

#if defined(__x86_64__)

namespace paceline::gpu::cpu {

/// Rows up to which vectors that sum as AMX tiles do are faster than tiles.
inline constexpr int rows_as_tiles = 2;
/// Rows up to which codes are decoded in registers, anew for each few rows. For more, decoding a
/// tile once pays for storing and loading its numbers.
inline constexpr int decoded_again_most = 64;

} // namespace paceline::gpu::cpu

PACELINE_TARGET_BEGIN(PACELINE_AVX512_TABLES_TARGET)

namespace paceline::gpu::cpu {

/// The sum of a part's products as vdpbf16ps computes it, pair by pair.
struct PairSum {
  /// Each product of a row waits for the one before it, so few rows alternate between several
  /// tiles.
  static constexpr int tiles_together(int rows) { return rows <= 3 ? 4 : rows <= 6 ? 2 : 1; }

  ALWAYS_INLINE PairSum() : sum(_mm512_setzero_ps()) {}
  /// Begins where the parts before ended.
  ALWAYS_INLINE explicit PairSum(__m512 before) : sum(before) {}
  ALWAYS_INLINE void add(__m512i weights, const std::byte* pair) {
    sum = _mm512_dpbf16_ps(sum, __m512bh(weights), broadcast(pair));
  }
  ALWAYS_INLINE __m512 total() const { return sum; }
  /// Returns the sum with those of the parts before, with which it began.
  ALWAYS_INLINE __m512 behind(__m512 /*before*/) const { return sum; }

  __m512 sum;
};

/// The sum of a part's products as AMX tiles compute it: even inputs apart from odd ones.
struct TileSum {
  static constexpr int tiles_together(int rows) { return rows == 1 ? 4 : 2; }

  ALWAYS_INLINE TileSum() : even(_mm512_setzero_ps()), odd(_mm512_setzero_ps()) {}
  ALWAYS_INLINE explicit TileSum(__m512 /*before*/) : TileSum() {}
  ALWAYS_INLINE void add(__m512i weights, const std::byte* pair) {
    const __m512i inputs = __m512i(broadcast(pair));
    even = _mm512_fmadd_ps(first_of(weights), first_of(inputs), even);
    odd = _mm512_fmadd_ps(second_of(weights), second_of(inputs), odd);
  }
  ALWAYS_INLINE __m512 total() const { return _mm512_add_ps(even, odd); }
  ALWAYS_INLINE __m512 behind(__m512 before) const { return _mm512_add_ps(before, total()); }

  ALWAYS_INLINE static __m512 first_of(__m512i pairs) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  }
  ALWAYS_INLINE static __m512 second_of(__m512i pairs) {
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(int(0xFFFF0000u))));
  }

  __m512 even;
  __m512 odd;
};

} // namespace paceline::gpu::cpu

PACELINE_TARGET_END

#endif
