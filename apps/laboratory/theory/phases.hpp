// What the phases of serving take: reading prompts, decoding, and decoding beside a prompt's chunk.
#pragma once

#include "apps/laboratory/theory/memory.hpp"
#include "gpu/sim/profile.hpp"

namespace paceline::apps::theory {

/// What the phases work on.
struct Batch {
  int sequences = 1; ///< Sequences of a batch.
  int length = 1;    ///< Tokens of each prompt, and of each context.
  int chunk = 1;     ///< Rows of a prompt beside which other sequences decode.
};

/// Seconds of a token (Agrawal et al. 2023, "SARATHI", table 2).
struct PhaseTimes {
  double prefill = 0; ///< Time of a prompt's token, in a pass of whole prompts.
  double decode = 0;  ///< Time of an answer's token, in a pass of all sequences.
  /// What an answer's token adds to a pass of a chunk, along with which all sequences but one ride.
  double riding = 0;
};

/// Returns the times of a simulated device. batch: of two sequences or more.
PhaseTimes phase_times(const gpu::sim::Profile& profile, const Batch& batch);

/// Operations for each byte that is read, weights, keys and values having 16 bits. Below what a
/// device computes while it reads a byte, its memory bounds a phase.
struct Intensity {
  double prefill = 0;
  double decode = 0;
  double hybrid = 0; ///< Of a chunk, half a prompt behind its beginning, with all others' decodes.
};

/// Returns the intensities of a model whose heads of attention each have keys and values of their
/// own.
Intensity intensity_of(const ModelBytes& model, const Batch& batch);

} // namespace paceline::apps::theory
