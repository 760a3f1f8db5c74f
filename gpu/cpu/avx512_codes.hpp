// Products with weights of scaled codes on AVX-512, where the processor has tables of bytes (VBMI):
// as Kernels has them.
#pragma once

#include "gpu/cpu/memory.hpp"
#include "gpu/cpu/weight.hpp"

#include <cstddef>

namespace paceline::gpu::cpu {

/// Whether the rest can be called.
bool avx512_has_codes();

std::size_t avx512_codes_staged_bytes(int rows, const PackedWeight& w);
void avx512_stage_codes(std::byte* staged, Tensor in, const PackedWeight& w, int first, int last);
void avx512_linear_codes(Tensor out, const std::byte* staged, const PackedWeight& w, int first,
                         int last, bool add, Scratch& scratch);

/// Rows whose products avx512_linear_codes_as_tiles has sooner than tiles have them.
inline constexpr int rows_as_tiles = 2;
/// The same bits as AMX tiles give, where denormal numbers are flushed (denormals.hpp). pairs: as
/// avx512_stage_pairs has them; sums: [rows, parts], where there are least values.
void avx512_linear_codes_as_tiles(Tensor out, const std::byte* pairs, const float* sums,
                                  const PackedWeight& w, int first, int last, bool add);

/// Inputs [first, last) of a tile, whole runs of 32: its codes as bf16 integers, [pair of inputs]
/// [output][2].
void avx512_decode_codes(const PackedWeight& w, int tile, int first, int last, std::byte* to);
/// The sums of a row's parts, rounded to bf16 before. sums: [parts]
void avx512_sum_parts(float* sums, const float* row, const PackedWeight& w);

} // namespace paceline::gpu::cpu
