// Pearson's chi-square test with the exact tail of the chi-square distribution.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

namespace paceline::testing {

/// Upper regularised incomplete gamma function Q(a, x), by its series below a + 1 and by Lentz's
/// continued fraction above (Abramowitz and Stegun 6.5.29, 6.5.31).
inline double upper_gamma(double a, double x) {
  if (x <= 0)
    return 1;
  const double front = std::exp(a * std::log(x) - x - std::lgamma(a));
  if (x < a + 1) {
    double term = 1 / a;
    double sum = term;
    for (double n = a + 1; term > sum * 1e-16; n += 1)
      sum += term *= x / n;
    return 1 - front * sum;
  }
  constexpr double tiny = std::numeric_limits<double>::min() / 1e-16;
  double b = x + 1 - a;
  double c = 1 / tiny;
  double d = 1 / b;
  double fraction = d;
  for (int i = 1; i < 100000; ++i) {
    const double numerator = i * (a - i);
    b += 2;
    d = 1 / (std::abs(numerator * d + b) < tiny ? tiny : numerator * d + b);
    c = std::abs(b + numerator / c) < tiny ? tiny : b + numerator / c;
    fraction *= d * c;
    if (std::abs(d * c - 1) < 1e-15)
      break;
  }
  return front * fraction;
}

struct ChiSquare {
  double statistic = 0;
  int cells = 0;      ///< After pooling.
  double p_value = 1; ///< Probability of a statistic at least this large if the counts fit.
};

/// counts against cell probabilities (their sum 1). Cells that expect fewer than `least` counts
/// are pooled into one. A count where the probability is 0 gives p_value 0.
inline ChiSquare chi_square(std::span<const double> probabilities,
                            std::span<const std::uint64_t> counts, double least = 10) {
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
    out.p_value = upper_gamma((out.cells - 1) / 2.0, out.statistic / 2);
  return out;
}

/// Every statistical check asks for a p-value above this. A test program makes fewer than a
/// hundred such checks, so that it alarms falsely for fewer than one choice of seeds in a million.
inline constexpr double false_alarm = 1e-8;

} // namespace paceline::testing
