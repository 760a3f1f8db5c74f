// Does the same work for many things, on a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace paceline::placement {

/// Calls work(i) for each i below count, each once, on up to `threads` threads; returns when all
/// have returned. work: throws nothing, and calls of it share nothing that they write.
template <class Work>
void for_each_index(std::size_t count, int threads, const Work& work) {
  std::atomic<std::size_t> next = 0;
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++)
      work(i);
  };
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < std::min(std::size_t(std::max(threads, 1)), count); ++i)
    helpers.emplace_back(take);
  take();
}

} // namespace paceline::placement
