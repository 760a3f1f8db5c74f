// What `paceline bench` prints.
#pragma once

#include "apps/laboratory/bench/modes.hpp"
#include "apps/laboratory/bench/steps.hpp"

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps {

/// All that was measured.
struct BenchReport {
  ModelInfo target;
  std::optional<ModelInfo> draft;
  bool simulated = false;
  int cores = 0; ///< That this process may use.
  std::optional<StepTimes> steps;
  std::size_t peak_bytes = 0; ///< Resident, once models are loaded and warm.
  std::vector<ModeResult> modes;
  /// Plain decoding with the weights that `dtype` says, where the report's are quantized.
  std::optional<ModeResult> not_quantized;
  boost::json::object lookups; ///< What each had seen (apps/console/lookups.hpp).
  double step_cost_error = 0;  ///< Metrics::step_cost_error at the end.
  int prompts = 0;
  int repetitions = 0;
  int max_tokens = 0;
  float temperature = 0;
  Result<void> traced; ///< Whether the trace that was asked for could be written.
};

/// The object of docs/program.md; what was not measured is left out.
boost::json::object report_json(const BenchReport& report);
/// The same for people.
std::string report_text(const BenchReport& report);

} // namespace paceline::apps
