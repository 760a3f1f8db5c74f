// Chooses mode and window length from what the rounds have shown.
#pragma once

#include "speculation/estimates.hpp"
#include "speculation/window_shares.hpp"

#include <array>
#include <functional>
#include <optional>

namespace paceline::speculation {

/// What the next round should do.
struct Plan {
  SpeculationMode mode = SpeculationMode::off; ///< off, sync or overlap.
  int window = 0;                              ///< K; 0 in `off`.
  int lookahead = 0;                           ///< Tokens past the window; 0 unless overlap.
  int fork_rows = 0;                           ///< Forks a pass advances, over all sequences.
  bool learns_guesses = false; ///< Without forks, to learn what they would be worth.
  bool probes = false;         ///< To learn what the mode is worth.
  bool model = true;           ///< False: a look-up beside the model is all that drafts.
};

struct PolicyOptions {
  SpeculationMode mode = SpeculationMode::automatic;
  std::optional<int> window; ///< Fixed K.
  Lookahead lookahead = Lookahead::automatic;
  int fork_rows = 15;     ///< Forks that a pass may advance for a sequence,
  int fork_rows_all = 64; ///< and for all of them. No more than what they cost is worth.
  int window_limit = 16;
  double prior_acceptance = 0.7;
  double prior_cost_ratio = 0.1; ///< c, from the models' sizes.
  bool lookup = false;           ///< One drafts beside the model, at no cost.
};

/// How long a step of the target takes that has so many rows, by what is known; 0: nothing is.
using StepSeconds = std::function<double(int rows)>;

/// The engine-wide choice. One owner, no locks; a pure function of its observations (no clock) and
/// of what steps cost.
///
/// Windows maximise theory.hpp's tokens per second for the estimated a, c and v. `automatic`
/// starts in `sync` and follows the mode of most tokens per second: a mode's rounds are timed
/// while it is in use, and what a round of that length should bring is the estimates' to say,
/// which is steadier than counting a few rounds' tokens. Modes not in use are probed for a few
/// rounds, after pauses that grow and are long enough to keep the loss below about 1 % each: so
/// speculation that loses (a large batch, a text the draft does not know) ends by itself, and
/// comes back. Where a look-up drafts beside the model, `off` is what it brings alone. Times of
/// small and large batches are kept apart. Rounds with prefill are neither timed nor used for
/// probes.
class SpeculationPolicy {
public:
  SpeculationPolicy(PolicyOptions options, StepSeconds step);
  void observe(const RoundObservation& round);
  void observe_guess(int rank) { estimates_.observe_guess(rank); }
  Plan plan() const;
  /// What forks are weighed with.
  Odds odds() const { return estimates_.odds(); }

  double acceptance() const; ///< Smoothed a, by whoever drafts now.
  /// Smoothed a of the model's own tokens.
  double model_acceptance() const { return estimates_.model_acceptance(); }
  /// K where a look-up drafts without the model.
  int lookup_window() const { return load().arms[std::size_t(SpeculationMode::off)].choice; }
  /// What drafting a window costs a sequence of this acceptance, in tokens that plain decoding
  /// would have brought while it waits.
  double drafting_cost(SpeculationMode mode, int window, double acceptance) const;
  double cost_ratio() const; ///< Smoothed c, at the present number of sequences.
  /// A pass of the draft; 0 before the first one was seen.
  double draft_seconds() const { return estimates_.draft_seconds(); }
  /// What windows bring one of several sequences, whose acceptance may be its own.
  WindowGains gains(SpeculationMode mode, double acceptance) const;
  /// The chance that what was drafted past a window of its comes true.
  double hit(double acceptance, int window) const;
  /// The same of all windows from 0 to this one.
  std::vector<double> hits(double acceptance, int window) const;

private:
  static constexpr std::size_t modes = 3; // off, sync, overlap
  static constexpr std::size_t loads = 9; // sequences: 1, 2, up to 4, up to 8, ...

  /// A mode under a load.
  struct Arm {
    FadingMean seconds;     ///< Of a round.
    FadingMean window;      ///< Rows per sequence, less one.
    FadingMean expected;    ///< Tokens per sequence, by the windows that rounds had.
    int choice = 0;         ///< Window to use.
    int pause = 0;          ///< Rounds before it is probed.
    int pause_at_least = 0; ///< Next time.
  };
  struct Load {
    std::array<Arm, modes> arms;
    SpeculationMode mode = SpeculationMode::sync; ///< The one to follow.
    SpeculationMode probed = SpeculationMode::off;
    int probe_rounds = 0; ///< Left; 0: no probe.
    bool known = false;
  };

  Load& load() { return loads_[load_]; }
  const Load& load() const { return loads_[load_]; }
  Arm& arm(SpeculationMode mode) { return load().arms[std::size_t(mode)]; }
  bool open_to(SpeculationMode mode) const;
  double rate(SpeculationMode mode) const;
  void enter_load(int sequences);
  double v(int window) const;
  int best_window(double acceptance, const std::function<double(int)>& drafting) const;
  int best_overlapped(double a, double c) const;
  void choose_windows();
  void choose_lookahead();
  void estimate_covered(const Odds& odds);
  /// What is drafted ahead: a chain, or forks of windows of so many tokens.
  struct Forks {
    int window = 0;
    int rows = 0; ///< Of each sequence, in a pass.
    double rate = 0;
  };
  bool may_fork() const;
  int fork_rows_min() const; ///< Of a sequence.
  int fork_rows_max() const;
  Forks best_forks(const Odds& odds) const;
  double fork_rate(double acceptance, int window, int rows, double hit) const;
  void time(const RoundObservation& round);
  void steer();
  int probe_length(SpeculationMode mode) const;
  int pause_before(SpeculationMode mode) const;
  void begin_probe(SpeculationMode mode);
  void end_probe();
  void follow(SpeculationMode mode);

  PolicyOptions options_;
  StepSeconds step_;
  Estimates estimates_;
  std::array<Load, loads> loads_{};
  std::size_t load_ = 0;
  int sequences_ = 1;
  bool forks_ = false; ///< The lookahead that `overlap` uses now.
  /// The share of misses that forks turn into hits, by window.
  std::array<double, WindowGains::tokens_max + 1> covered_{};
  int fork_window_ = 0; ///< And its window,
  int fork_rows_ = 0;   ///< and the rows of each sequence's.
  int rounds_ = 0;
  bool prefill_ = false;                                   ///< Of the last round.
  SpeculationMode last_mode_ = SpeculationMode::automatic; ///< automatic: none to compare with.
};

} // namespace paceline::speculation
