// What parts of scaled codes add to the sums of rows on AMX tiles. A tile product is one part of 16
// outputs, the codes as bf16 integers: it begins at zero, and what it gives is added to the sums of
// its rows, in registers, in units of the part's scale. A part's least value is multiplied with the
// sum of its inputs, which is staged with the row. However many rows and tiles take turns, a sum's
// parts are added in one order.
#pragma once

#include "gpu/cpu/amx_tiles.hpp"

#if defined(__x86_64__)

namespace paceline::gpu::cpu {

inline constexpr std::size_t decoded_input = tile_outputs * 2; ///< Bytes of an input of a tile.
inline constexpr int of_part = row_block * tile_outputs;       ///< Numbers of what a part gives.

/// Staged: blocks of row_block rows, each [32 inputs][row][32] in bf16; then, where there are least
/// values, the sums of each row's parts.
struct CodesProduct {
  Tensor out;
  const std::byte* staged;
  const PackedWeight& w;
  bool add;

  std::size_t block_bytes() const { return std::size_t(w.padded_inputs()) * row_block * 2; }
  int blocks() const { return (out.rows + row_block - 1) / row_block; }
  const std::byte* rows(int row) const {
    return staged + std::size_t(row / row_block) * block_bytes();
  }
  const float* sums(int row) const {
    return reinterpret_cast<const float*>(staged + std::size_t(blocks()) * block_bytes()) +
           std::ptrdiff_t(row) * w.parts();
  }
};

/// Parts of rows and a tile, and what they are added to.
struct CodeParts {
  int row; ///< The first, of a block.
  int tile;
  int first;              ///< Part,
  int count;              ///< and how many there are.
  const std::byte* codes; ///< Decoded, of the first part: [pair of inputs][16][2], bf16.
  float* sums;            ///< [row][16]
};

/// For up to `rows` rows and parts of `part` inputs.
void configure_for_parts(int rows, int part);

using AddParts = void(const CodesProduct& p, const CodeParts& of);
/// Of `rows` rows, as many as are configured.
AddParts* parts_adder(int part, int rows);

/// The same of two whole blocks of rows and two tiles, the first ones being those of CodeParts.
/// tile_codes: bytes to the codes of the second tile; block_sums: numbers to the sums of the second
/// block. Those of the second tile, [16][16], follow on the first's.
using AddPanel = void(const CodesProduct& p, const CodeParts& of, std::size_t tile_codes,
                      std::ptrdiff_t block_sums);
AddPanel* panel_adder(const ScaledCodes& how);

} // namespace paceline::gpu::cpu

#endif
