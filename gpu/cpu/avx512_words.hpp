// Common parts of products with weights whose codes are in words of 32 bits (pack_words).
#pragma once

#include "gpu/cpu/avx512_tiles.hpp"

#if defined(__x86_64__)

#include <type_traits>
#include <utility>

/// The target with byte permutations (VBMI) and products of bytes (VNNI), which processors have
/// together.
#ifdef __clang__
#define PACELINE_AVX512_TABLES_TARGET "avx512f,avx512bw,avx512bf16,avx512vbmi,avx512vnni"
#else
#define PACELINE_AVX512_TABLES_TARGET                                                              \
  "avx512f,avx512bw,avx512bf16,avx512vbmi,avx512vnni,prefer-vector-width=512"
#endif
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define INLINED __attribute__((always_inline))

namespace paceline::gpu::cpu {

/// Stands for the bits of a code where a tile holds decoded numbers.
inline constexpr int decoded = 16;

inline bool has_tables_of_bytes() {
  static const bool usable = __builtin_cpu_supports("avx512vbmi") &&
                             __builtin_cpu_supports("avx512bf16") &&
                             __builtin_cpu_supports("avx512vnni");
  return usable;
}

} // namespace paceline::gpu::cpu

PACELINE_TARGET_BEGIN(PACELINE_AVX512_TABLES_TARGET)

namespace paceline::gpu::cpu {

template <int N>
inline constexpr std::integral_constant<int, N> constant;

/// Calls f(0), f(1), ..., f(N - 1) with compile-time constants.
template <int N, class F>
ALWAYS_INLINE void repeat(const F& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) INLINED {
    (f(std::integral_constant<int, i>()), ...);
  }
  (std::make_integer_sequence<int, N>());
}

/// Calls f(a constant with this value), where value is from 1 to most.
template <int most, class F>
ALWAYS_INLINE void with_constant(int value, const F& f) {
  if constexpr (most > 1) {
    if (value < most)
      return with_constant<most - 1>(value, f);
  }
  f(std::integral_constant<int, most>());
}

/// Load the numbers of 16 outputs as floats.
ALWAYS_INLINE __m512 halves(const std::byte* from) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(from)));
}
ALWAYS_INLINE __m512 bytes(const std::byte* from) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(from))));
}

template <int count>
ALWAYS_INLINE __m512i shifted_right(__m512i of_16_bits) {
  if constexpr (count < 0)
    return _mm512_slli_epi16(of_16_bits, -count);
  else if constexpr (count == 0)
    return of_16_bits;
  else
    return _mm512_srli_epi16(of_16_bits, count);
}

/// Loads words of 16 outputs and permutes the bytes of each four words by `order`.
ALWAYS_INLINE __m512i in_order(const std::byte* words, __m128i order) {
  return _mm512_shuffle_epi8(_mm512_load_si512(words), _mm512_broadcast_i32x4(order));
}
/// Loads words so that both halves of each begin with codes of one pair.
ALWAYS_INLINE __m512i split_in_pairs(const std::byte* words) {
  return in_order(words, _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
}

} // namespace paceline::gpu::cpu

PACELINE_TARGET_END

#endif
