// Chooses mode and window length from what the rounds have shown.
#pragma once

#include "paceline/event.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace paceline::sampling {

/// One finished round of one batch, as the scheduler saw it. Only *judged* positions count towards
/// acceptance: rows after a rejection say nothing (DESIGN: statistics that steer use judged
/// positions only).
struct RoundObservation {
  SpeculationMode mode = SpeculationMode::off;
  int sequences = 0;    ///< Sequences that committed tokens.
  int window = 0;       ///< Longest window in the batch.
  int rows = 0;         ///< Rows of the target step.
  bool prefill = false; ///< The step carried prefill rows: its time says nothing of decoding.
  int judged = 0;       ///< Over all sequences.
  int accepted = 0;
  int tokens = 0;     ///< Committed, over all sequences.
  int lookaheads = 0; ///< Sequences that had a lookahead to hit.
  int hits = 0;
  double round_seconds = 0;      ///< Previous verdict (or first order) to this verdict.
  double target_seconds = 0;     ///< Target lane time: forward and verification.
  double draft_step_seconds = 0; ///< Lane time of one drafted token (0: none drafted).
};

/// What the next round should do.
struct Plan {
  SpeculationMode mode = SpeculationMode::off; ///< off, sync or overlap.
  int window = 0;                              ///< K; 0 in `off`.
  int lookahead = 0;                           ///< Tokens past the window; 0 unless overlap.
};

struct PolicyOptions {
  SpeculationMode mode = SpeculationMode::automatic;
  std::optional<int> window; ///< Fixed K.
  bool lookahead = true;
  int window_limit = 16;
  double prior_acceptance = 0.7;
  double prior_cost_ratio = 0.1; ///< c, from the models' sizes.
};

/// The engine-wide choice. One owner, no locks; a pure function of its observations (no clock).
/// `automatic` starts in `sync`, keeps rates (tokens per second) of each mode, tries the others
/// now and then for a few rounds, and follows the best; windows come from theory.hpp's formulas
/// with measured a, c and v, smoothed.
class SpeculationPolicy {
public:
  explicit SpeculationPolicy(PolicyOptions options);
  void observe(const RoundObservation& round);
  Plan plan() const;

  double acceptance() const; ///< Smoothed a.
  double cost_ratio() const; ///< Smoothed c.
  double v(int rows) const;  ///< Smoothed target time of `rows` rows over one row.

  /// Should a free target wait for a window of which `bound` of `window` positions are bound?
  /// Decides by expected tokens per second (and always waits in `sync` with a fixed window, so
  /// that its tokens repeat). Depends on the past and on counts only, never on token values.
  bool worth_waiting(int bound, int window) const;

private:
  PolicyOptions options_;
  // The state is the implementation's; see policy.cpp.
  struct Rate {
    double tokens = 0;
    double seconds = 0;
  };
  std::array<Rate, 3> rates_{};
  double acceptance_;
  double cost_ratio_;
};

/// One sequence's own view: drafts that keep failing switch speculation off for that sequence,
/// and it is tried again after a growing pause.
class SequenceThrottle {
public:
  /// After each round with a window. Judged positions only.
  void observe(int judged, int accepted);
  /// After each plain round while paused.
  void observe_plain();
  /// False while paused.
  bool speculate() const { return pause_ == 0; }

private:
  double score_ = 1; ///< Smoothed acceptance.
  int pause_ = 0;    ///< Plain rounds left.
  int next_pause_ = 16;
};

} // namespace paceline::sampling
