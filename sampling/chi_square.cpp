#include "sampling/chi_square.hpp"

#include <algorithm>
#include <boost/math/special_functions/gamma.hpp>
#include <limits>
#include <numeric>
#include <vector>

namespace paceline::sampling {

ChiSquare chi_square(std::span<const double> probabilities, std::span<const std::uint64_t> counts,
                     double least) {
  const double total = double(std::accumulate(counts.begin(), counts.end(), std::uint64_t(0)));
  struct Cell {
    double expected = 0;
    double count = 0;
  };
  std::vector<Cell> cells;
  Cell pool;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (probabilities[i] == 0 && counts[i] > 0)
      return {std::numeric_limits<double>::infinity(), int(counts.size()), 0};
    const Cell cell{probabilities[i] * total, double(counts[i])};
    if (cell.expected >= least) {
      cells.push_back(cell);
      continue;
    }
    pool.expected += cell.expected;
    pool.count += cell.count;
  }
  if (pool.expected > 0 && (pool.expected >= least || cells.empty()))
    cells.push_back(pool);
  else if (pool.expected > 0) {
    auto& smallest = *std::min_element(cells.begin(), cells.end(),
                                       [](Cell a, Cell b) { return a.expected < b.expected; });
    smallest.expected += pool.expected;
    smallest.count += pool.count;
  }
  ChiSquare out{0, int(cells.size()), 1};
  for (const auto& cell : cells)
    out.statistic += (cell.count - cell.expected) * (cell.count - cell.expected) / cell.expected;
  if (out.cells > 1)
    out.p_value = boost::math::gamma_q((out.cells - 1) / 2.0, out.statistic / 2);
  return out;
}

} // namespace paceline::sampling
