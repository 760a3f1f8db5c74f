#include "models/state_run.hpp"

#include <algorithm>
#include <cassert>

namespace paceline::models {

gpu::StateRun state_run(const SequenceRows& sequence, const gpu::KvPool& pool, int first_row) {
  gpu::StateRun run;
  run.state = sequence.state;
  run.first_row = first_row;
  run.rows = sequence.rows();
  run.position = sequence.start;
  const bool copies = sequence.begin >= 0 && sequence.start == sequence.begin_at;
  run.begin = copies ? sequence.begin : -1;
  run.held = copies || sequence.start == 0 ? sequence.start : pool.held(sequence.state);
  assert(run.held > 0 || sequence.start == 0);
  run.certain = std::max(run.held, run.end() - sequence.tentative);
  assert(sequence.start + 1 >= run.held);
  if (sequence.snapshot_at > run.held && sequence.snapshot_at <= run.certain) {
    run.snapshot = sequence.snapshot;
    run.snapshot_at = sequence.snapshot_at;
  }
  return run;
}

void note_held(const gpu::KvPool& pool, const gpu::StateRun& run) {
  pool.held(run.state) = run.certain;
  if (run.snapshot >= 0)
    pool.held(std::uint32_t(run.snapshot)) = run.snapshot_at;
}

} // namespace paceline::models
