// What speculation can gain, in closed form. The notation is that of docs/theory.md: a is the
// acceptance rate (accepted / judged), c the time of a draft step, v that of a verification step of
// K+1 rows, and K the window length; times are in units of a plain target step of one row.
#pragma once

#include <span>

namespace paceline::sampling::theory {

/// Returns a = sum of min(p, q) = 1 - TV(p, q) (Leviathan et al. 2022, theorem 3.5).
/// p, q: [vocabulary].
double acceptance(std::span<const float> p, std::span<const float> q);

/// Returns the tokens per round, E = (1 - a^(K+1)) / (1 - a) (Leviathan et al. 2022, equation 1).
double expected_tokens(double a, int window);

/// Returns the factor by which arithmetic grows (Leviathan et al. 2022, theorem 3.11). c_ops:
/// operations of the draft over those of the target, per token.
double operations_factor(double a, int window, double c_ops);

/// What lies between draft and target, and within the target.
struct Way {
  double round_trip = 0; ///< To the draft and back, r, in target steps.
  int stages = 1;        ///< Equal stages of the target, each on a device of its own.
  double sharing = 0;    ///< What a pass of the draft beside a step adds to it, in passes.
};

/// Returns the time of a step that takes v alone, beside which the draft works for `ahead`, or as
/// long as the step takes, on a device that both share: each pass adds a part of its time.
double shared_step(double v, double ahead, double sharing);

/// Returns the tokens that `sync` yields per time of a plain target step: E / (K c + v + r). Where
/// v is 1 and r is 0 these are the speed-up of Leviathan et al. 2022, theorem 3.8.
double sync_rate(double a, int window, double c, double v, const Way& way = {});

/// Returns the probability that a chain lookahead comes true: a^(K+1).
double chain_hit(double a, int window);
/// Returns the same where of all other outcomes the share `guessed` has a fork.
double fork_hit(double a, int window, double guessed);

/// Returns the tokens that `overlap` yields per time of a plain target step, with hit probability
/// h. That is E / (v + (1 - h) (K c + r)) if a verification takes at least as long as drafting,
/// (K+1) c + r <= v. Otherwise a hit waits for its lookahead and costs (K+1) c + r in place of v.
/// With windows in flight in S stages a hit costs v / S in place of v, and a miss as much as with
/// one, which is an upper bound: lanes end the pieces that they have begun. On a shared device the
/// lookahead's passes lengthen the verification (shared_step).
double overlap_rate(double a, int window, double c, double v, double hit, const Way& way = {});

/// Does the same with forks. Draft passes during the verification take `c_fork` each. A hit goes on
/// with those tokens of its window that they have drafted; the rest of it, like all of a miss's
/// window, is drafted while no verification runs. On a shared device (Way::sharing) forks lengthen
/// all of the verification: there are always more of them to draft.
double fork_rate(double a, int window, double c, double c_fork, double v, double hit,
                 double sharing = 0);

/// Returns the cost of a draft step at which `sync` is as fast as plain decoding: (E - v) / K. Not
/// above 0: it is slower with any draft.
double break_even_cost(double a, int window, double v);

/// Returns the window (1..limit) of highest rate; `v` of K+1 rows is 1 + K * v_slope.
int best_window_sync(double a, double c, double v_slope, int limit);
int best_window_overlap(double a, double c, double v_slope, int limit);

} // namespace paceline::sampling::theory
