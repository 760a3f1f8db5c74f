// What `paceline bench` prints.
#pragma once

#include "apps/bench/modes.hpp"
#include "apps/bench/sampler.hpp"
#include "apps/bench/steps.hpp"

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps {

struct MachineFigures {
  int cores = 0;
  double read_bytes_per_second = 0; ///< 0 as below: not measured.
  double multiply_adds_per_second = 0;
  double product_multiply_adds_per_second = 0;
};

/// All that was measured.
struct BenchReport {
  ModelInfo target;
  std::optional<ModelInfo> draft;
  bool simulated = false;
  MachineFigures machine;
  std::optional<StepTimes> steps;
  std::vector<SamplerTime> sampler;
  std::size_t peak_bytes = 0; ///< Resident, once models are loaded and warm.
  std::vector<ModeResult> modes;
  int prompts = 0;
  int repetitions = 0;
  int max_tokens = 0;
  float temperature = 0;
};

/// The object of DESIGN section 9; what was not measured is left out.
boost::json::object report_json(const BenchReport& report);
/// The same for people.
std::string report_text(const BenchReport& report);

} // namespace paceline::apps
