// Products with moderate tiles of microscaling weights on AVX-512, for processors that also have
// byte permutations (VBMI).
#pragma once

#include "gpu/cpu/highway.hpp"
#include "gpu/cpu/weight.hpp"

namespace paceline::gpu::cpu {

/// Returns null if the processor lacks the needed instructions.
DecodeBlocks* avx512_decode_blocks();

/// Returns whether avx512_linear_mx can be called: the processor must have the instructions, and
/// the rows must be few and moderate. staged: blocks of row_block rows, [pair of inputs][row][2]
bool avx512_decodes_for(const std::byte* staged, int rows, const PackedWeight& w);
/// Computes the rows' products with tiles [first, last), whose blocks are decoded in registers. See
/// Kernels::linear.
void avx512_linear_mx(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                      bool add);
/// Does it for up to rows_as_tiles rows (avx512_sums.hpp), and gives the same bits as AMX tiles.
void avx512_linear_mx_as_tiles(Tensor out, const std::byte* staged, const PackedWeight& w,
                               TileRun run, bool add);

} // namespace paceline::gpu::cpu
