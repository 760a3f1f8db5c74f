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

/// Calls fill(begin, end) for parts of [0, count), one on each core if there is enough to do. First
/// use of new memory costs more than writing to it, and cores share that cost.
template <class F>
void for_shares(int count, std::size_t bytes, const F& fill) {
  const int cores = int(std::max(1u, std::thread::hardware_concurrency()));
  const int shares = bytes < limits::large_allocation ? 1 : std::min(cores, count);
  const auto cut = [&](int share) { return int(std::int64_t(count) * share / shares); };
  std::vector<std::jthread> helpers;
  int mine = 1; // Shares of this thread: the first, and those that no helper could be started for.
  try {
    for (int share = shares - 1; share >= 1; --share)
      helpers.emplace_back(fill, cut(share), cut(share + 1));
  } catch (const std::system_error&) {
    mine = shares - int(helpers.size());
  }
  fill(0, cut(mine));
}

} // namespace paceline::gpu
