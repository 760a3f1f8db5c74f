#include "gpu/cpu/operations.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace paceline::gpu::cpu;

namespace {

constexpr int least = 4;

/// Takes runs by turns as two ranks do that are equally fast, each a run ahead of what it
/// multiplies, and returns how often each tile was multiplied.
std::vector<int> multiply_in_turn(int tiles) {
  TileQueue queue;
  std::vector<int> times(std::size_t(tiles), 0);
  std::vector<TileRun> ahead(2);
  for (int idle = 0, rank = 0; idle < 2; rank = 1 - rank) {
    const TileRun run = ahead[rank].empty() ? queue.take(tiles, 2, least) : ahead[rank];
    ahead[rank] = run.empty() ? run : queue.take(tiles, 2, least, least);
    idle = run.empty() ? idle + 1 : 0;
    for (int tile = run.first; tile < run.last; ++tile)
      ++times[std::size_t(tile)];
  }
  return times;
}

} // namespace

TEST_CASE("ranks that take runs ahead multiply each tile once") {
  for (const int tiles : {1, 4, 7, 8, 9, 31, 64, 1001}) {
    CAPTURE(tiles);
    CHECK(multiply_in_turn(tiles) == std::vector<int>(std::size_t(tiles), 1));
  }
}

TEST_CASE("a rank takes no run ahead that leaves none to another one") {
  TileQueue queue;
  CHECK(queue.take(2 * least, 2, least).last == least);
  CHECK(queue.take(2 * least, 2, least, least).empty());
  const TileRun others = queue.take(2 * least, 2, least);
  CHECK(others.first == least);
  CHECK(others.last == 2 * least);
  CHECK(queue.take(2 * least, 2, least).empty());
}

TEST_CASE("a part of a run is followed by the rest of it, and the run by the next one") {
  const TileRun run{8, 16, 40};
  CHECK(run.behind(12) == 12);
  CHECK(run.behind(16) == 40);
}
