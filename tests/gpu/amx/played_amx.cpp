// The amx family of a machine without tiles, in the place of the library's: the same source, with
// played instructions. The rest of its code needs AVX-512 BF16 all the same.
#include "tests/gpu/amx/played_tiles.hpp"

// NOLINTBEGIN(bugprone-suspicious-include): compiled once more, on purpose.
#define amx_kernels amx_kernels_of_this_machine
#include "gpu/cpu/amx.cpp"
#include "gpu/cpu/amx_attention.cpp"
#include "gpu/cpu/amx_codes.cpp"
#include "gpu/cpu/amx_parts.cpp"
#undef amx_kernels
// NOLINTEND(bugprone-suspicious-include)

#include "gpu/cpu/avx512bf16.hpp"

namespace paceline::gpu::cpu {

const Kernels* amx_kernels();

const Kernels* amx_kernels() {
  static const AmxKernels kernels;
  return avx512bf16_kernels() ? &kernels : nullptr;
}

} // namespace paceline::gpu::cpu
