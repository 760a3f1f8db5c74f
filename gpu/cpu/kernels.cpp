#include "gpu/cpu/kernels.hpp"

#include "base/bf16.hpp"

#include <algorithm>

namespace paceline::gpu::cpu {
namespace {

/// Writes the codes of a key or value, one each `stride` numbers. Returns their scale.
float store_codes(std::int8_t* to, int stride, const float* numbers, int count) {
  std::uint32_t most = 0;
  for (int d = 0; d < count; ++d)
    most = std::max(most, KvScale::size(numbers[d]));
  const KvScale scale(most);
  for (int d = 0; d < count; ++d)
    to[d * stride] = scale.code(numbers[d]);
  return scale.scale();
}

} // namespace

void store_key(const KvHead& kv, int position, const float* key) {
  const int page = position / kv.page_tokens;
  const int slot = position % kv.page_tokens;
  std::byte* keys = kv.keys(page);
  if (kv.type == KvType::int8) {
    kv.key_scales(page)[slot] =
        store_codes(reinterpret_cast<std::int8_t*>(keys) + slot, kv.page_tokens, key, kv.head_dim);
    return;
  }
  if (kv.type == KvType::f32) {
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
  const int page = position / kv.page_tokens;
  const int slot = position % kv.page_tokens;
  std::byte* values = kv.values(page);
  if (kv.type == KvType::int8) {
    kv.value_scales(page)[slot] = store_codes(
        reinterpret_cast<std::int8_t*>(values) + slot * kv.head_dim, 1, value, kv.head_dim);
    return;
  }
  if (kv.type == KvType::f32) {
    std::copy_n(value, kv.head_dim, reinterpret_cast<float*>(values) + slot * kv.head_dim);
    return;
  }
  auto* to = reinterpret_cast<base::bf16*>(values) + (slot / 2) * 2 * kv.head_dim + slot % 2;
  for (int d = 0; d < kv.head_dim; ++d)
    to[2 * d] = base::to_bf16(value[d]);
}

} // namespace paceline::gpu::cpu
