// What a pass does to the states of its sequences (gpu/recurrence.hpp), whatever model runs it.
#pragma once

#include "gpu/recurrence.hpp"
#include "models/model.hpp"

namespace paceline::models {

/// Returns the run of a sequence's rows, which stand in the pass from `first_row` on. A sequence
/// that begins has a state without positions, whatever it held for another.
gpu::StateRun state_run(const SequenceRows& sequence, const gpu::KvPool& pool, int first_row);

/// Notes what states hold behind a pass that has gone through.
void note_held(const gpu::KvPool& pool, const gpu::StateRun& run);

} // namespace paceline::models
