// AMX's instructions for machines without tiles, played as Intel's manual (volume 2, chapter 3)
// describes them: the sums' order and rounding included, and what the processor refuses. Each
// thread has its own tiles. What is included after this header has these in the place of the
// intrinsics.
#pragma once

#include "gpu/cpu/target.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <immintrin.h>
#include <stdexcept>

namespace paceline::gpu::testing {

struct Tile {
  int rows = 0;
  int row_bytes = 0;
  alignas(64) std::byte data[16][64] = {};
};

/// Returns this thread's tile of that number.
inline Tile& tile(int number) {
  thread_local Tile tiles[8];
  return tiles[number];
}
inline Tile& configured(int number) {
  Tile& t = tile(number);
  if (t.rows == 0 || t.row_bytes == 0)
    throw std::logic_error("an undefined instruction: a tile that is not configured");
  return t;
}

/// Refuses sizes that do not belong to one product.
inline void check_fit(const Tile& sums, const Tile& left, const Tile& right) {
  if (sums.rows != left.rows || sums.row_bytes != right.row_bytes ||
      left.row_bytes != 4 * right.rows)
    throw std::logic_error("an undefined instruction: tiles that do not fit");
}

inline void played_loadconfig(const void* memory) {
  const auto* bytes = static_cast<const std::uint8_t*>(memory);
  for (int number = 0; number < 8; ++number) {
    Tile& t = tile(number);
    std::uint16_t row_bytes = 0;
    std::memcpy(&row_bytes, bytes + 16 + 2 * number, sizeof row_bytes);
    t = {};
    t.rows = bytes[48 + number];
    t.row_bytes = row_bytes;
    if (bytes[0] != 1 || t.rows > 16 || row_bytes > 64)
      throw std::logic_error("a general protection fault: tile configuration");
  }
}
inline void played_release() {
  for (int number = 0; number < 8; ++number)
    tile(number) = {};
}
inline void played_zero(int number) {
  Tile& t = configured(number);
  std::memset(t.data, 0, sizeof t.data);
}
inline void played_loadd(int number, const void* base, std::size_t stride) {
  Tile& t = configured(number);
  std::memset(t.data, 0, sizeof t.data);
  for (int r = 0; r < t.rows; ++r)
    std::memcpy(t.data[r], static_cast<const std::byte*>(base) + std::size_t(r) * stride,
                std::size_t(t.row_bytes));
}
inline void played_stored(int number, void* base, std::size_t stride) {
  const Tile& t = configured(number);
  for (int r = 0; r < t.rows; ++r)
    std::memcpy(static_cast<std::byte*>(base) + std::size_t(r) * stride, t.data[r],
                std::size_t(t.row_bytes));
}

/// Adds the products of four signed bytes at a time to sums of 32 bits.
inline void played_dpbssd(int to, int a, int b) {
  Tile& sums = configured(to);
  const Tile& left = configured(a);
  const Tile& right = configured(b);
  check_fit(sums, left, right);
  for (int m = 0; m < sums.rows; ++m)
    for (int n = 0; n < sums.row_bytes / 4; ++n) {
      std::int32_t sum = 0;
      std::memcpy(&sum, sums.data[m] + 4 * n, sizeof sum);
      for (int k = 0; k < left.row_bytes; ++k)
        sum += std::int8_t(left.data[m][k]) * std::int8_t(right.data[k / 4][4 * n + k % 4]);
      std::memcpy(sums.data[m] + 4 * n, &sum, sizeof sum);
    }
}

} // namespace paceline::gpu::testing

// GCC 12's own headers make undefined vectors in a way that it then warns of (PR 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
PACELINE_TARGET_BEGIN("avx512f,avx512bw")

namespace paceline::gpu::testing {

/// The first and the second of each pair have sums of their own, from 0 on, which then are added to
/// each other and to what was there.
inline void played_dpbf16ps(int to, int a, int b) {
  Tile& sums = configured(to);
  const Tile& left = configured(a);
  const Tile& right = configured(b);
  check_fit(sums, left, right);
  const __m512i upper = _mm512_set1_epi32(int(0xFFFF0000u));
  for (int m = 0; m < sums.rows; ++m) {
    __m512 first = _mm512_setzero_ps();
    __m512 second = _mm512_setzero_ps();
    for (int k = 0; k < right.rows; ++k) {
      int pair = 0;
      std::memcpy(&pair, left.data[m] + 4 * k, sizeof pair);
      const __m512i x = _mm512_set1_epi32(pair);
      const __m512i y = _mm512_load_si512(right.data[k]);
      first = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)),
                              _mm512_castsi512_ps(_mm512_slli_epi32(y, 16)), first);
      second = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(x, upper)),
                               _mm512_castsi512_ps(_mm512_and_si512(y, upper)), second);
    }
    const __m512 sum = _mm512_add_ps(_mm512_load_ps(sums.data[m]), _mm512_add_ps(first, second));
    _mm512_mask_store_ps(sums.data[m], __mmask16((1u << (sums.row_bytes / 4)) - 1u), sum);
  }
}

} // namespace paceline::gpu::testing

PACELINE_TARGET_END

// NOLINTBEGIN(bugprone-reserved-identifier): the intrinsics' names.
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_dpbssd
#define _tile_loadconfig paceline::gpu::testing::played_loadconfig
#define _tile_release paceline::gpu::testing::played_release
#define _tile_zero paceline::gpu::testing::played_zero
#define _tile_loadd paceline::gpu::testing::played_loadd
#define _tile_stored paceline::gpu::testing::played_stored
#define _tile_dpbf16ps paceline::gpu::testing::played_dpbf16ps
#define _tile_dpbssd paceline::gpu::testing::played_dpbssd
// NOLINTEND(bugprone-reserved-identifier)
