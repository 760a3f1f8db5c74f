// Where rows lie beside states, for the kernels of recurrent layers.
#pragma once

#include "gpu/cuda/kernels.hpp"

namespace paceline::gpu::cuda::kernels {

/// The positions whose rows a launch keeps beside a state: behind a pass, or of a snapshot.
struct Keeping {
  std::uint32_t state;
  int first;
  int end;
};

__device__ inline Keeping keeping(const StateRun& run, int taps, bool snapshot) {
  if (!snapshot)
    return {run.state, run.first_kept(taps), run.end()};
  const int end = run.snapshot < 0 ? 0 : run.snapshot_at;
  return {std::uint32_t(run.snapshot), run.first_in_snapshot(taps), end};
}

/// Returns the row of a position before those of a run's pass.
__device__ inline const float* row_before(const States& states, const StateRun& run, int position) {
  return states.of(run.state_before()) + states.layout.row_at(position);
}

} // namespace paceline::gpu::cuda::kernels
