// Products with weights of scaled codes on AVX-512, for processors with byte permutations (VBMI),
// as Kernels specifies them.
#pragma once

#include "gpu/cpu/memory.hpp"
#include "gpu/cpu/weight.hpp"

#include <cstddef>

namespace paceline::gpu::cpu {

/// Returns whether the processor has what the other functions here need.
bool avx512_has_codes();

std::size_t avx512_codes_staged_bytes(int rows, const PackedWeight& w);
void avx512_stage_codes(std::byte* staged, Tensor in, const PackedWeight& w, int first, int last);
void avx512_linear_codes(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                         bool add, Scratch& scratch);

/// Multiplies up to rows_as_tiles rows (avx512_sums.hpp), and gives the same bits as AMX tiles if
/// denormal numbers are flushed (denormals.hpp). pairs: rows as avx512_stage_pairs stages them;
/// sums: [rows, parts], if there are least values.
void avx512_linear_codes_as_tiles(Tensor out, const std::byte* pairs, const float* sums,
                                  const PackedWeight& w, TileRun run, bool add);

/// Decodes the codes of a tile's inputs [first, last), whole runs of 32, to bf16 integers: [pair of
/// inputs][output][2].
void avx512_decode_codes(const PackedWeight& w, int tile, int first, int last, std::byte* to);
/// Computes the sums of a row's parts, of inputs that are rounded to bf16. sums: [parts]
void avx512_sum_parts(float* sums, const float* row, const PackedWeight& w);

} // namespace paceline::gpu::cpu
