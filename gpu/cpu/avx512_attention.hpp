// Attention over a cache of bf16 by vdpbf16ps (see avx512_attention.cpp).
#pragma once

#include "gpu/cpu/kernels.hpp"

namespace paceline::gpu::cpu {

/// Returns whether avx512_attend reads this cache; only the avx512bf16 family may call that.
bool avx512_attends(const KvHead& kv);
/// Implements Kernels::attend.
void avx512_attend(Tensor out, Tensor q, std::span<const std::int32_t> positions,
                   const AttentionOptions& options, const KvHead& kv, Scratch& scratch);

} // namespace paceline::gpu::cpu
