// Products of parts of scaled codes on AMX tiles, added to the sums of rows. A tile product is one
// part of 16 outputs, with rows and codes as bf16 numbers or as bytes. It begins at zero, and its
// result is added to the sums of its rows, in registers, in units of the part's scale. A part's
// least value is multiplied with the sum of its inputs, which is staged with the row. A sum's parts
// are added in one order, however many rows and tiles are processed together.
#pragma once

#include "gpu/cpu/amx_tiles.hpp"
#include "gpu/cpu/int8_rows.hpp"

#include <optional>

#if defined(__x86_64__)

namespace paceline::gpu::cpu {

inline constexpr int of_part = row_block * tile_outputs; ///< Numbers of a part's product.

/// A block of up to row_block rows as it is staged.
struct RowBlock {
  const std::byte* inputs;
  const float* scales; ///< Of rows of 8 bits: [block of 32 inputs][row]; else null.
  const float* sums;   ///< Of parts: [part][row] of rows of 8 bits, else [row][part].
};

/// A product with a weight of scaled codes. Staged are blocks of row_block rows, each [32
/// inputs][row][32] in bf16; then, if there are least values, the sums of each row's parts. Rows of
/// 8 bits are staged as Int8Rows says.
struct CodesProduct {
  Tensor out;
  const std::byte* staged;
  const PackedWeight& w;
  bool add;
  std::optional<Int8Rows> bytes = {}; ///< If rows have 8 bits.

  int part() const { return bytes ? w.integers()->part : w.codes().part; }
  /// Returns the bytes that an input of a tile's outputs has when it is decoded.
  int decoded_input() const { return tile_outputs * (bytes ? 1 : 2); }
  /// Returns the block that begins with this row.
  RowBlock block(int row) const {
    if (!bytes)
      return {rows(row), nullptr, sums(row)};
    const auto floats = [&](std::size_t offset) {
      return reinterpret_cast<const float*>(staged + offset);
    };
    return {staged + bytes->codes(row, 0), floats(bytes->scale(row, 0)),
            floats(bytes->added(row, 0))};
  }

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
  const std::byte* codes; ///< Decoded from the first part on: [pair of inputs][16][2], bf16; or
                          ///< [four inputs][16][4], bytes.
  float* sums;            ///< [row][16]
};

/// Configures the tiles for the product's parts and `rows` rows.
void configure_for_parts(const CodesProduct& p, int rows);

using AddParts = void(const CodesProduct& p, const CodeParts& of);
/// Returns the function for `rows` rows, as many as are configured.
AddParts* parts_adder(const CodesProduct& p, int rows);

/// Does the same for two whole blocks of rows and two tiles, of which CodeParts has the first.
/// tile_codes: bytes to the codes of the second tile; block_sums: numbers to the sums of the second
/// block. The sums of the second tile, [16][16], follow those of the first.
using AddPanel = void(const CodesProduct& p, const CodeParts& of, std::size_t tile_codes,
                      std::ptrdiff_t block_sums);
AddPanel* panel_adder(const CodesProduct& p);

} // namespace paceline::gpu::cpu

#endif
