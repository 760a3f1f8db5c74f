// Microscaling weights on AVX-512 (see avx512_mx.cpp).
#pragma once

#include "gpu/cpu/highway.hpp"

namespace paceline::gpu::cpu {

/// For tiles that are moderate; null where the processor lacks what it takes (AVX-512 VBMI).
DecodeBlocks* avx512_decode_blocks();

} // namespace paceline::gpu::cpu
