// Products with weights of scaled codes on AMX tiles, as Kernels specifies them.
#pragma once

#include "gpu/cpu/memory.hpp"
#include "gpu/cpu/weight.hpp"

#include <cstddef>

namespace paceline::gpu::cpu {

std::size_t amx_codes_staged_bytes(int rows, const PackedWeight& w);
void amx_stage_codes(std::byte* staged, Tensor in, const PackedWeight& w, int first, int last);
/// Multiplies, and leaves tiles configured.
void amx_linear_codes(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                      bool add, Scratch& scratch);

/// Multiplies rows that are staged by avx512_stage_int8, with the same bits as avx512_linear_int8,
/// and leaves tiles configured. Needs avx512_has_int8.
void amx_linear_int8(Tensor out, const std::byte* staged, const PackedWeight& w, TileRun run,
                     bool add, Scratch& scratch);

} // namespace paceline::gpu::cpu
