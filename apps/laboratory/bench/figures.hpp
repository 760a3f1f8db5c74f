// The figures of one run of `bench`.
#pragma once

#include "apps/laboratory/bench/modes.hpp"
#include "apps/laboratory/bench/steps.hpp"

#include <boost/json/object.hpp>
#include <cstddef>
#include <optional>
#include <vector>

namespace paceline::apps {

/// All measurements of one run.
struct BenchReport {
  ModelInfo target;
  std::optional<ModelInfo> draft;
  bool simulated = false;
  int cores = 0; ///< Cores that this process may use.
  std::optional<StepTimes> steps;
  std::size_t peak_bytes = 0; ///< Resident memory once models are loaded and warm.
  std::vector<ModeResult> modes;
  /// Plain decoding with the weights in `dtype`, if the report's are quantized.
  std::optional<ModeResult> not_quantized;
  boost::json::object lookups; ///< Texts that each look-up had seen (apps/console/lookups.hpp).
  double step_cost_error = 0;  ///< Metrics::step_cost_error at the end.
  int prompts = 0;
  int repetitions = 0;
  int max_tokens = 0;
  float temperature = 0;
  Result<void> traced; ///< Whether the requested trace could be written.
};

} // namespace paceline::apps
