// Pearson's chi-square test with the exact tail of the chi-square distribution.
#pragma once

#include <cstdint>
#include <span>

namespace paceline::sampling {

struct ChiSquare {
  double statistic = 0;
  int cells = 0;      ///< After pooling.
  double p_value = 1; ///< Probability of a statistic at least this large if the counts fit.
};

/// Tests counts against cell probabilities (their sum 1). Cells that expect fewer than `least`
/// counts are pooled into one. A count where the probability is 0 gives p_value 0. Threads: any.
ChiSquare chi_square(std::span<const double> probabilities, std::span<const std::uint64_t> counts,
                     double least = 10);

} // namespace paceline::sampling
