#include "gpu/cpu/kernels.hpp"

#include "base/bf16.hpp"
#include "gpu/cpu/amx.hpp"
#include "gpu/cpu/avx512bf16.hpp"
#include "gpu/cpu/highway.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>

namespace paceline::gpu::cpu {

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> all;
  const auto add = [&](const Kernels* kernels) {
    if (kernels && std::find(all.begin(), all.end(), kernels) == all.end())
      all.push_back(kernels);
  };
  add(amx_kernels());
  add(avx512bf16_kernels());
  add(&highway_kernels());
  for (const Kernels* variant : highway_variants())
    add(variant);
  add(&scalar_kernels());
  return all;
}

Result<const Kernels*> choose_kernels() {
  const std::vector<const Kernels*> available = available_kernels();
  const char* wanted = std::getenv("PACELINE_CPU");
  if (!wanted || !*wanted)
    return available.front();
  std::vector<std::string> names;
  for (const Kernels* kernels : available) {
    if (std::string_view(kernels->name()) == wanted)
      return kernels;
    names.emplace_back(kernels->name());
  }
  return fail(ErrorCode::unsupported,
              fmt::format("PACELINE_CPU={} names no kernel family of this machine", wanted),
              fmt::format("use one of {}", fmt::join(names, ", ")));
}

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
