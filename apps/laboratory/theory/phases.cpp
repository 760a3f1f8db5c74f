#include "apps/laboratory/theory/phases.hpp"

#include <cstdint>

namespace paceline::apps::theory {
namespace {

double seconds(const gpu::sim::Profile& profile, gpu::Work::Kind kind, int rows,
               std::int64_t decode_reads, std::int64_t prompt_reads) {
  gpu::Work work;
  work.kind = kind;
  work.rows = rows;
  work.decode_reads = decode_reads;
  work.prompt_reads = prompt_reads;
  return base::seconds(profile.latency(work));
}

/// Returns the operations for each byte in a pass of so many rows. Each reads weights and positions
/// of keys and values once; `scores` counts the positions that each row looks at. A number of two
/// bytes is multiplied and added, so it takes two operations for a row.
double intensity(const ModelBytes& model, double rows, double positions, double scores) {
  return (rows * model.weights + scores * model.token) / (model.weights + positions * model.token);
}

} // namespace

PhaseTimes phase_times(const gpu::sim::Profile& profile, const Batch& batch) {
  using Kind = gpu::Work::Kind;
  const std::int64_t length = batch.length;
  const int riding = batch.sequences - 1;
  const int rows = batch.sequences * batch.length;
  const double prompts =
      seconds(profile, Kind::prefill, rows, 0, batch.sequences * length * (length + 1) / 2);
  const double chunk = seconds(profile, Kind::prefill, batch.chunk, 0, batch.chunk * length / 2);
  const double both = seconds(profile, Kind::prefill, batch.chunk + riding, riding * length,
                              batch.chunk * length / 2);
  return {prompts / rows,
          seconds(profile, Kind::decode, batch.sequences, batch.sequences * length, 0) /
              batch.sequences,
          (both - chunk) / riding};
}

Intensity intensity_of(const ModelBytes& model, const Batch& batch) {
  const double sequences = batch.sequences;
  const double length = batch.length;
  const double contexts = sequences * length;
  const double others = contexts - length;
  const double middle = length / 2;
  return {intensity(model, contexts, contexts, contexts * (length + 1) / 2),
          intensity(model, sequences, contexts, contexts),
          intensity(model, batch.chunk + sequences - 1, middle + others,
                    batch.chunk * middle + others)};
}

} // namespace paceline::apps::theory
