// An estimate of what a step costs, before any step was made.
#pragma once

#include "models/model.hpp"
#include "scheduling/step_cost.hpp"

namespace paceline::execution {

/// Measures, within milliseconds and on a lane of its own, how fast the device multiplies with a
/// few of the model's own weights: one row takes the time of reading them, many rows the time of
/// the arithmetic. There is no prior for a simulated device, whose lanes may wait for a virtual
/// clock, nor for a model without weights.
scheduling::StepPrior measure_step_prior(gpu::Device& device, const models::Model& model);

} // namespace paceline::execution
