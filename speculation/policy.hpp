// Chooses mode and window length from what the rounds have shown.
#pragma once

#include "speculation/early_end.hpp"
#include "speculation/estimates.hpp"
#include "speculation/window_shares.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <span>

namespace paceline::speculation {

/// A plan says what the next round should do.
struct Plan {
  SpeculationMode mode = SpeculationMode::off; ///< off, sync or overlap.
  int window = 0;                              ///< K; 0 in `off`.
  int lookahead = 0;                           ///< Tokens past the window; 0 unless overlap.
  int fork_rows = 0;                           ///< Forks a pass advances, over all sequences.
  int tree_rows = 0;           ///< Rows beside a window that is waited for, for other tokens.
  int tree_forks = 0;          ///< Forks that a pass of the draft advances for these.
  bool learns_guesses = false; ///< Guesses without forks, to learn what forks would be worth.
  bool probes = false;         ///< The round is to show what the mode is worth.
  bool model = true;           ///< False: a look-up beside the model is all that drafts.
  /// The answer's form drafts, too, and lengthens the window up to so many tokens; 0: it does not.
  int form_window = 0;
  bool form_alone = false; ///< Nothing drafts but the form.
};

struct PolicyOptions {
  SpeculationMode mode = SpeculationMode::automatic;
  std::optional<int> window; ///< Fixed K.
  Lookahead lookahead = Lookahead::automatic;
  int fork_rows = 15;           ///< Most forks that a pass advances for a sequence.
  int fork_rows_all = 64;       ///< Most forks for all sequences; their cost may allow fewer.
  int tree_rows_max = 0;        ///< Most rows beside a window; 0: the target has none.
  std::optional<int> tree_rows; ///< Fixed number of these.
  int window_limit = 16;
  double prior_acceptance = 0.7;
  double prior_cost_ratio = 0.1; ///< c, from the models' sizes.
  bool lookup = false;           ///< A look-up drafts beside the model, at no cost.
  bool early_ends = false;       ///< The draft can end a window early (EarlyEnd).
  bool shares_device = false;    ///< Passes of the draft lengthen steps that they run beside.
  int block = 0; ///< Tokens that a pass of the draft writes at once, at most; 0: it writes one.

  /// Returns how many passes a window takes, or its lookahead.
  int passes(int tokens) const { return block > 0 ? (tokens + block - 1) / block : tokens; }
};

/// Seconds that a step of the target with so many rows takes, as far as is known; 0: unknown.
using StepSeconds = std::function<double(int rows)>;

/// The engine-wide choice of mode and window. It has one owner and no locks, and is a pure function
/// of its observations (no clock) and of what steps cost.
///
/// Windows maximise theory.hpp's tokens per second for the estimated a, c and v. `automatic` starts
/// in `sync` and follows the mode of most tokens per second. A mode's rounds are timed while it is
/// in use, and the estimates say what a round with such windows should bring, which is steadier
/// than counting a few rounds' tokens. Modes not in use are probed for a few rounds, after pauses
/// that grow and are long enough to keep the loss below about 1 % each, so that speculation that
/// loses (a large batch, a text the draft does not know) ends by itself, and comes back. Times of
/// small and large batches are kept apart. Rounds with prefill are neither timed nor used for
/// probes.
class SpeculationPolicy {
public:
  /// least: the least time that what is known of steps leaves possible, for sizes that none had.
  SpeculationPolicy(PolicyOptions options, StepSeconds step, StepSeconds least);
  SpeculationPolicy(PolicyOptions options, const StepSeconds& step)
      : SpeculationPolicy(options, step, step) {}
  void observe(const RoundObservation& round);
  void observe_guess(int rank) { estimates_.observe_guess(rank); }
  Plan plan() const;
  /// Returns the plan for requests that ask for this mode, whatever pays. Forks are planned for all
  /// sequences together, so they have some only while others would.
  Plan plan(SpeculationMode mode) const;
  /// Says whether rounds of `overlap` draft past their windows, for all that is known.
  bool drafts_ahead() const { return options_.lookahead != Lookahead::none && ahead_pays_; }
  /// Returns the odds that forks are weighed with.
  Odds odds() const { return estimates_.odds(); }

  double acceptance() const; ///< Smoothed a of whoever drafts now.
  /// Returns the smoothed a of the model's own tokens.
  double model_acceptance() const { return estimates_.model_acceptance(); }
  /// Returns K for rounds in which a look-up drafts without the model.
  int lookup_window() const { return load().arms[std::size_t(Strategy::without_model)].choice; }
  /// Returns what drafting a window costs a sequence of this acceptance, in tokens that plain
  /// decoding would have brought while the sequence waits.
  double drafting_cost(SpeculationMode mode, int window, double acceptance) const;
  double cost_ratio() const; ///< Smoothed c, at the present number of sequences.
  /// Returns the price of a token of the draft, in target steps: its part of the passes for windows
  /// like this one.
  double token_cost(int window) const {
    return cost_ratio() * options_.passes(window) / std::max(1, window);
  }
  /// Returns when windows that are waited for end early: where a token should bring less than is
  /// decoded in the time of its pass and its row.
  EarlyEnd early_end() const;
  /// Returns the least chance of a row beside a window that brings as much as is decoded in the
  /// time that it takes; 0: the number of rows is fixed.
  double least_row() const { return tree_.least; }
  /// Returns the seconds of a pass of the draft; 0 before the first one was seen.
  double draft_seconds() const { return estimates_.draft_seconds(); }
  /// Returns what windows bring one of several sequences, whose acceptance may be its own.
  WindowGains gains(SpeculationMode mode, double acceptance) const;
  /// Returns the chance that what was drafted past a window of the sequence comes true.
  double hit(double acceptance, int window) const;
  /// Returns the same for all windows from 0 to this one.
  std::vector<double> hits(double acceptance, int window) const;

private:
  /// What rounds are timed and chosen by. `without_model` is what a look-up brings alone, and plain
  /// decoding where there is none.
  enum class Strategy { without_model, sync, overlap };
  static constexpr Strategy all_strategies[] = {Strategy::without_model, Strategy::sync,
                                                Strategy::overlap};
  static constexpr double clear_lead = 1.03; // a rate below this lead changes nothing
  static constexpr double rounds_timed = 4;  // rounds that say well enough what a round takes
  static constexpr std::size_t loads = 9;    // sequences: 1, 2, up to 4, up to 8, ...

  /// What is known of a strategy under a load.
  struct Arm {
    FadingMean seconds;     ///< Time of a round.
    FadingMean window;      ///< Rows per sequence, less one.
    FadingMean expected;    ///< Expected tokens per sequence, for the windows of the rounds.
    FadingSlope per_token;  ///< Time of a round over its longest window.
    int choice = 0;         ///< Window to use.
    int pause = 0;          ///< Rounds until it is probed.
    int pause_at_least = 0; ///< Least pause; doubled by each probe that fails.
  };
  struct Load {
    std::array<Arm, std::size(all_strategies)> arms;
    Strategy strategy = Strategy::sync; ///< The one that rounds follow.
    Strategy probed = Strategy::without_model;
    int probe_rounds = 0; ///< Rounds left of the probe; 0: no probe.
    bool known = false;
  };

  Load& load() { return loads_[load_]; }
  const Load& load() const { return loads_[load_]; }
  Arm& arm(Strategy strategy) { return load().arms[std::size_t(strategy)]; }
  const Arm& arm(Strategy strategy) const { return load().arms[std::size_t(strategy)]; }
  static Strategy strategy_of(SpeculationMode mode);
  static Strategy strategy_of(const RoundObservation& round);
  Strategy present() const;
  Plan plan_of(Strategy strategy) const;
  bool open_to(Strategy strategy) const;
  double rate(Strategy strategy) const;
  void enter_load(int sequences);
  double v(int window) const;
  double token_seconds() const;
  double least_chance() const;
  int best_window(double acceptance, const std::function<double(int)>& drafting) const;
  double overlapped_rate(double a, double c, std::span<const double> v) const;
  int choose_overlapped(double a, double c);
  void choose_windows();
  void choose_lookahead();
  void estimate_covered(const Odds& odds);
  /// Forks that may be drafted ahead: their window in tokens, and the rate that they should bring.
  struct Forks {
    int window = 0;
    int rows = 0; ///< Forks of each sequence in a pass.
    double rate = 0;
  };
  bool may_fork() const;
  bool writes_forks() const; ///< Whether the draft may write any.
  bool may_branch() const;
  void choose_tree();
  double tree_seconds(int window, int rows) const;
  double tree_rate(int window, int rows, int forks, double gain) const;
  int fork_rows_min() const; ///< Fewest forks of a sequence in a pass.
  int fork_rows_max() const;
  Forks best_forks(const Odds& odds) const;
  double fork_rate(double acceptance, int window, int rows, double hit) const;
  void time(const RoundObservation& round);
  void steer();
  int probe_length(Strategy strategy) const;
  int pause_before(Strategy strategy) const;
  void begin_probe(Strategy strategy);
  void end_probe();
  void follow(Strategy strategy);

  PolicyOptions options_;
  StepSeconds step_;
  StepSeconds least_step_;
  Estimates estimates_;
  std::array<Load, loads> loads_{};
  std::size_t load_ = 0;
  int sequences_ = 1;
  double sharing_ = 0;     ///< RoundObservation::sharing
  bool ahead_pays_ = true; ///< Whether drafting past windows brings more than it adds to steps.
  bool forks_ = false;     ///< Whether `overlap` drafts forks ahead now.
  /// The share of misses that forks turn into hits, by window.
  std::array<double, WindowGains::tokens_max + 1> covered_{};
  struct {
    int rows = 0;
    int forks = 0; ///< Forks of a sequence in a pass of the draft.
    double least = 0;
  } tree_;               ///< Rows beside a window of `sync`.
  int fork_window_ = 0;  ///< Window of the forks.
  int fork_rows_ = 0;    ///< Forks of each sequence in a pass.
  double fork_rate_ = 0; ///< What they should bring.
  int rounds_ = 0;
  bool prefill_ = false;                  ///< The last round had a prefill.
  std::optional<Strategy> last_strategy_; ///< None: there is no round to compare with.
};

} // namespace paceline::speculation
