// Chooses among the kernel families; no other file knows all of them.
#include "gpu/cpu/amx.hpp"
#include "gpu/cpu/avx512bf16.hpp"
#include "gpu/cpu/highway.hpp"
#include "gpu/cpu/kernels.hpp"

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

} // namespace paceline::gpu::cpu
