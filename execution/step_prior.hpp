// What a step costs before one was made.
#pragma once

#include "models/model.hpp"
#include "scheduling/step_cost.hpp"

namespace paceline::execution {

/// By what the device's products reach with a few of the model's own weights, on a lane of its own
/// and within milliseconds: the time of one row is that of reading them, and of many rows their
/// arithmetic's. None of a simulated device, whose lanes may wait for a virtual clock, and of a
/// model without weights.
scheduling::StepPrior measure_step_prior(gpu::Device& device, const models::Model& model);

} // namespace paceline::execution
