// Common parts of products and attention on AMX tiles (Intel SDM volume 1, chapter 18).
#pragma once

#include "gpu/cpu/avx512_tiles.hpp"
#include "gpu/cpu/kernels.hpp"
#include "gpu/cpu/target.hpp"
#include "gpu/cpu/weight.hpp"

#if defined(__x86_64__)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <immintrin.h>
#include <span>

#define PACELINE_AMX_TARGET "avx512f,avx512bw,avx512bf16,amx-tile,amx-bf16,amx-int8"

namespace paceline::gpu::cpu {

inline constexpr std::size_t tile_size = 1024; ///< Bytes of 16 rows.
inline constexpr int tile_row = 64;            ///< Bytes of a row.

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

/// Makes the compiler finish its writes to what `memory` points to. GCC 12 does not tell its
/// optimizer what the tile instructions read.
inline void written(const void* memory) {
  asm volatile("" ::"r"(memory) : "memory");
}

/// Returns staged rows, of which there are up to row_block in tiles, in the order of
/// avx512_stage_pairs.
inline const std::byte* pairs_of_tiles(const std::byte* staged, int rows, const PackedWeight& w,
                                       Scratch& scratch) {
  const int pairs = w.padded_inputs() / 2;
  auto* const to = reinterpret_cast<std::uint32_t*>(
      scratch.at_least(std::size_t(pairs * rows) * sizeof(std::uint32_t)));
  const auto* from = reinterpret_cast<const std::uint32_t*>(staged);
  constexpr int in_tile = tile_inputs / 2;
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < pairs; ++i)
      to[i * rows + r] = from[(i / in_tile * row_block + r) * in_tile + i % in_tile];
  return reinterpret_cast<const std::byte*>(to);
}

/// Implements Kernels::attend for a cache of bf16 or int8.
void attend_on_tiles(Tensor out, Tensor q, std::span<const std::int32_t> positions,
                     const AttentionOptions& options, const KvHead& kv, Scratch& scratch);

} // namespace paceline::gpu::cpu

PACELINE_TARGET_BEGIN(PACELINE_AMX_TARGET)

namespace paceline::gpu::cpu {

/// Tiles 0 to 3 accumulate, 4 and 5 hold inputs, all of them with `rows` rows; 6 and 7 hold what
/// inputs are multiplied with.
inline void configure_tiles(int rows) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = tile_row;
    config.rows[i] = i < 6 ? std::uint8_t(rows) : 16;
  }
  written(&config);
  _tile_loadconfig(&config);
}

/// Select the tile by a switch, since the intrinsics need its number as a literal.
inline void zero_accumulator(int number) {
  switch (number) {
  case 0: _tile_zero(0); break;
  case 1: _tile_zero(1); break;
  case 2: _tile_zero(2); break;
  default: _tile_zero(3); break;
  }
}
inline void load_inputs(int number, const std::byte* from, std::size_t stride) {
  if (number == 0)
    _tile_loadd(4, from, stride);
  else
    _tile_loadd(5, from, stride);
}
inline void load_codes(int number, const std::byte* from) {
  if (number == 0)
    _tile_loadd(6, from, tile_row);
  else
    _tile_loadd(7, from, tile_row);
}
inline void store_accumulator(int number, float* to, std::size_t stride) {
  switch (number) {
  case 0: _tile_stored(0, to, stride); break;
  case 1: _tile_stored(1, to, stride); break;
  case 2: _tile_stored(2, to, stride); break;
  default: _tile_stored(3, to, stride); break;
  }
}

/// Rounds one row of inputs to bf16 and writes it to its place in every input tile; zeros fill up
/// the last. stride: tiles from one input tile of the row to the next.
inline void stage_row(std::byte* to, const float* in, int inputs, int stride = 1) {
  for (int i = 0; i < inputs; i += tile_inputs, to += std::size_t(stride) * tile_size)
    _mm512_store_si512(to, pairs_of_row(in + i, inputs - i));
}

} // namespace paceline::gpu::cpu

PACELINE_TARGET_END

#endif
