// Staging of rows for products by vdpbf16ps.
#pragma once

#include "gpu/tensor.hpp"

#include <cstddef>

namespace paceline::gpu::cpu {

/// Stages rows [first, last) of `in`, rounded to bf16: blocks of row_block rows, each [pair of
/// inputs][row of the block][2]. padded: number of inputs, padded. first: a multiple of row_block.
void avx512_stage_pairs(std::byte* staged, Tensor in, int padded, int first, int last);

} // namespace paceline::gpu::cpu
