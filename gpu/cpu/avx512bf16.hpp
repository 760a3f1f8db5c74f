// The kernel family for x86 with bf16 dot products (see avx512bf16.cpp).
#pragma once

namespace paceline::gpu::cpu {

class Kernels;

/// Returns the family, or null if the processor or the system has no AVX-512 BF16.
const Kernels* avx512bf16_kernels();

} // namespace paceline::gpu::cpu
