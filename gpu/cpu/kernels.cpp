#include "gpu/cpu/kernels.hpp"

#include "base/bf16.hpp"

#include <algorithm>

namespace paceline::gpu::cpu {

void store_key(const KvHead& kv, int position, const float* key) {
  const int slot = position % kv.page_tokens;
  std::byte* keys = kv.keys(position / kv.page_tokens);
  if (kv.dtype == DType::f32) {
    auto* to = reinterpret_cast<float*>(keys) + slot;
    for (int d = 0; d < kv.head_dim; ++d)
      to[d * kv.page_tokens] = key[d];
    return;
  }
  auto* to = reinterpret_cast<base::bf16*>(keys) + 2 * slot;
  for (int d = 0; d < kv.head_dim; d += 2) {
    to[d * kv.page_tokens] = base::to_bf16(key[d]);
    to[d * kv.page_tokens + 1] = base::to_bf16(key[d + 1]);
  }
}

void store_value(const KvHead& kv, int position, const float* value) {
  const int slot = position % kv.page_tokens;
  std::byte* values = kv.values(position / kv.page_tokens);
  if (kv.dtype == DType::f32) {
    std::copy_n(value, kv.head_dim, reinterpret_cast<float*>(values) + slot * kv.head_dim);
    return;
  }
  auto* to = reinterpret_cast<base::bf16*>(values) + (slot / 2) * 2 * kv.head_dim + slot % 2;
  for (int d = 0; d < kv.head_dim; ++d)
    to[2 * d] = base::to_bf16(value[d]);
}

} // namespace paceline::gpu::cpu
