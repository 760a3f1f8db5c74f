// Measuring the costs of models on the devices at hand.
#pragma once

#include "apps/console/plan/input.hpp"

#include <functional>
#include <string>
#include <vector>

namespace paceline::apps::plan {

struct MeasureOptions {
  int max_pipeline = 8;
  int max_tensor = 4;
  std::string text; ///< Text that prompts are cut from.
  /// Called while models are loaded, with what is loaded and how far it is (0 to 1).
  std::function<void(const std::string&, double)> progress;
};

/// Opens an engine on the first device, on the first two, four, ... in stages and in shards, as
/// `serve` would, and sends it requests as they are described for the model: alone, with as many
/// under way as stages, and with twice, four times, ... as many, up to what an engine of `serve`
/// works on at once, as long as that makes it faster. The slowest stage sets the pace at which
/// requests end, and the others share the rest of the time that one request alone takes. Simulated
/// devices run in virtual time.
/// Errors: the model cannot be opened there, or does not answer; more stages or shards than it can
/// have end the list.
Result<Costs> measure_costs(const Measurable& what, const MeasureOptions& options);

/// Returns by how much models that are busy on the first device slow each other, beyond sharing it
/// (placement::Devices::contention): the mean over each model beside the next one, both with a
/// request under way all the time, and alone. It is 1 for simulated devices, whose clocks know
/// nothing of each other. models: at least two. Errors: as above.
Result<double> measure_contention(const std::vector<Measurable>& models,
                                  const MeasureOptions& options);

} // namespace paceline::apps::plan
