// Host work on a weight, divided among the cores.
#pragma once

#include "gpu/limits.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace paceline::gpu {

/// fill(begin, end) over [0, count), a share on each core where there is enough to do. New memory
/// costs more than what is written to it, and cores take it side by side.
template <class F>
void for_shares(int count, std::size_t bytes, const F& fill) {
  const int cores = int(std::max(1u, std::thread::hardware_concurrency()));
  const int shares = bytes < limits::large_allocation ? 1 : std::min(cores, count);
  const auto cut = [&](int share) { return int(std::int64_t(count) * share / shares); };
  std::vector<std::jthread> helpers;
  int mine = 1; // Shares of this thread: all that no helper could be had for.
  try {
    for (int share = shares - 1; share >= 1; --share)
      helpers.emplace_back(fill, cut(share), cut(share + 1));
  } catch (const std::system_error&) {
    mine = shares - int(helpers.size());
  }
  fill(0, cut(mine));
}

} // namespace paceline::gpu
