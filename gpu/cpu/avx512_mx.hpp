// Microscaling weights on AVX-512: where the processor has tables of bytes (VBMI) as well, and
// tiles are moderate.
#pragma once

#include "gpu/cpu/highway.hpp"
#include "gpu/cpu/weight.hpp"

namespace paceline::gpu::cpu {

/// Null where the processor lacks what it takes.
DecodeBlocks* avx512_decode_blocks();

/// Whether avx512_linear_mx can be called: by what the processor has, and rows that are few and
/// moderate. staged: [pair of inputs][row][2]
bool avx512_decodes_for(const std::byte* staged, int rows, const PackedWeight& w);
/// The rows' products with tiles [first, last), whose blocks are decoded in registers. As
/// Kernels::linear has it.
void avx512_linear_mx(Tensor out, const std::byte* staged, const PackedWeight& w, int first,
                      int last, bool add);

} // namespace paceline::gpu::cpu
