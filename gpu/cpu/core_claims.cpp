#include "gpu/cpu/core_claims.hpp"

#include "gpu/limits.hpp"

#include <array>
#include <cstdint>

namespace paceline::gpu::cpu {
namespace {

/// How many lanes have work for each core. All engines share the counters, since the threads of all
/// of them are bound to the same cores.
std::array<std::atomic<std::uint32_t>, limits::core_index_max + 1> lanes;

} // namespace

void CoreClaims::set(bool claimed) {
  if (claimed_.exchange(claimed, std::memory_order_relaxed) == claimed)
    return;
  for (const int core : cores_)
    lanes[std::size_t(core)].fetch_add(claimed ? 1 : std::uint32_t(-1), std::memory_order_relaxed);
}

bool CoreClaims::wanted_by_others(int core) const {
  const bool own = claimed_.load(std::memory_order_relaxed);
  return lanes[std::size_t(core)].load(std::memory_order_relaxed) > std::uint32_t(own);
}

} // namespace paceline::gpu::cpu
