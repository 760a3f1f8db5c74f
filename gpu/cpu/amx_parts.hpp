// Products of parts of scaled codes on AMX tiles, added to the sums of rows. A tile product is one
// part of 16 outputs, with the codes as bf16 integers. It begins at zero, and its result is added
// to the sums of its rows, in registers, in units of the part's scale. A part's least value is
// multiplied with the sum of its inputs, which is staged with the row. A sum's parts are added in
// one order, however many rows and tiles are processed together.
#pragma once

#include "gpu/cpu/amx_tiles.hpp"

#if defined(__x86_64__)

namespace paceline::gpu::cpu {

inline constexpr std::size_t decoded_input = tile_outputs * 2; ///< Bytes of an input of a tile.
inline constexpr int of_part = row_block * tile_outputs;       ///< Numbers of a part's product.

/// A product with a weight of scaled codes. Staged are blocks of row_block rows, each [32
/// inputs][row][32] in bf16; then, if there are least values, the sums of each row's parts.
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

/// Parts of rows and a tile, and the sums that they are added to.
struct CodeParts {
  int row; ///< First row, at the start of a block.
  int tile;
  int first;              ///< First part.
  int count;              ///< Number of parts.
  const std::byte* codes; ///< Decoded codes from the first part on: [pair of inputs][16][2], bf16.
  float* sums;            ///< [row][16]
};

/// Configures the tiles for up to `rows` rows and parts of `part` inputs.
void configure_for_parts(int rows, int part);

using AddParts = void(const CodesProduct& p, const CodeParts& of);
/// Returns the function for `rows` rows, as many as are configured.
AddParts* parts_adder(int part, int rows);

/// Does the same for two whole blocks of rows and two tiles, of which CodeParts has the first.
/// tile_codes: bytes to the codes of the second tile; block_sums: numbers to the sums of the second
/// block. The sums of the second tile, [16][16], follow those of the first.
using AddPanel = void(const CodesProduct& p, const CodeParts& of, std::size_t tile_codes,
                      std::ptrdiff_t block_sums);
AddPanel* panel_adder(const ScaledCodes& how);

} // namespace paceline::gpu::cpu

#endif
