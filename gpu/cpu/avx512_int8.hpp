// Products of rows that are rounded to 8 bits on AVX-512, for processors with VNNI and VBMI.
#pragma once

#include "gpu/cpu/memory.hpp"
#include "gpu/cpu/weight.hpp"

#include <cstddef>

namespace paceline::gpu::cpu {

/// Returns whether the processor has what the other functions here need.
bool avx512_has_int8();

/// Do what stage_int8 and linear_int8 do, with the same bits.
void avx512_stage_int8(std::byte* staged, Tensor in, const PackedWeight& w, int first, int last);
void avx512_linear_int8(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                        bool add, Scratch& scratch);

/// Decodes a tile's inputs [first, last), whole blocks of 32, to the numbers of their codes, which
/// have up to six bits: [four inputs][output][4], signed bytes.
void avx512_decode_int8(const PackedWeight& w, int tile, int first, int last, std::byte* to);

} // namespace paceline::gpu::cpu
