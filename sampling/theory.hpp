// What speculation can gain, in closed form. Notation of docs/theory.md: a is the acceptance rate
// (accepted / judged), c a draft step over a target step, v a verification step of K+1 rows over
// one of a single row, K the window length; times are in units of a plain target step.
#pragma once

#include <span>

namespace paceline::sampling::theory {

/// a = sum of min(p, q) = 1 - TV(p, q) (Leviathan et al. 2022, theorem 3.5). p, q: [vocabulary].
double acceptance(std::span<const float> p, std::span<const float> q);

/// Least acceptance of `coupled` sampling: (1 - TV) / (1 + TV), with TV = 1 - a.
double coupled_acceptance_bound(double a);

/// E = (1 - a^(K+1)) / (1 - a): tokens per round (Leviathan et al. 2022, equation 1).
double expected_tokens(double a, int window);

/// E / (K c + 1): speed-up of synchronous speculation where verification costs one step
/// (Leviathan et al. 2022, theorem 3.8).
double walltime_improvement(double a, int window, double c);

/// Factor by which arithmetic grows (Leviathan et al. 2022, theorem 3.11); c_ops: operations of
/// the draft over those of the target, per token.
double operations_factor(double a, int window, double c_ops);

/// Tokens per target step of `sync`: E / (K c + v).
double sync_rate(double a, int window, double c, double v);

/// Probability that a chain lookahead comes true: a^(K+1).
double chain_hit(double a, int window);

/// Tokens per target step of `overlap` with hit probability h: E / (v + (1 - h) K c) where drafting
/// fits under the verification ((K+1) c <= v); where it does not, a hit waits for its lookahead and
/// costs (K+1) c.
double overlap_rate(double a, int window, double c, double v, double hit);

/// The same with forks: passes under the verification take `c_fork`, and a hit goes on with what
/// they have brought of its window; the rest of it, and a miss's, is drafted alone.
double fork_rate(double a, int window, double c, double c_fork, double v, double hit);

/// The window (1..limit) of highest rate; `v` of K+1 rows is 1 + (K+1 - 1) * v_slope.
int best_window_sync(double a, double c, double v_slope, int limit);
int best_window_overlap(double a, double c, double v_slope, int limit);

} // namespace paceline::sampling::theory
