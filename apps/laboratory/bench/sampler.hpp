// The cost of judging a window, by rule, warper and vocabulary.
#pragma once

#include "gpu/lane.hpp"
#include "paceline/error.hpp"

#include <string>
#include <vector>

namespace paceline::apps {

struct SamplerTime {
  int vocabulary = 0;
  std::string rule;           ///< "rejection", "coupled", "match"
  std::string warper;         ///< "none", "top-p", "top-k", "penalties"; all at temperature 0.8
  double seconds_per_row = 0; ///< Median.
};

/// Rows that are judged together: seven accepted tokens and the one that follows them.
inline constexpr int sampler_rows = 8;

/// Measures every combination of rule, warper and vocabulary, on one lane.
Result<std::vector<SamplerTime>> measure_sampler(gpu::Lane& lane);

} // namespace paceline::apps
