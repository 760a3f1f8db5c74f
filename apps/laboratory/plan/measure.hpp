// What models cost on the devices at hand.
#pragma once

#include "apps/console/plan/input.hpp"

#include <functional>
#include <string>

namespace paceline::apps::plan {

struct MeasureOptions {
  int max_pipeline = 8;
  int max_tensor = 4;
  std::string text; ///< Prompts are cut from it.
  /// Told while models are loaded: what, and how far (0 to 1).
  std::function<void(const std::string&, double)> progress;
};

/// Opens an engine on the first device, on the first two, four, ... in stages and in shards, as
/// `serve` would, and asks it for what is asked of the model: alone, and with as many requests
/// under way as stages. The slowest stage sets the pace at which these end, and the others have the
/// rest of the time that one alone takes. Simulated devices run in virtual time. Errors: the model
/// cannot be opened there, or does not answer; more stages or shards than it can have end the list.
Result<Costs> measure_costs(const Measurable& what, const MeasureOptions& options);

} // namespace paceline::apps::plan
