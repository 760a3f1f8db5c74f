// When a placement of several models on several devices pays, as tables.
#pragma once

namespace paceline::testing {

/// The four conditions: memory of a device, rate, bursts, objective (Li et al. 2023, section 3),
/// and what two devices take of two models.
void print_pays();

/// What it adds that engines answer several requests at once, at equal rates.
void print_batches();

} // namespace paceline::testing
