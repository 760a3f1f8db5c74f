// A closed loop for policies: rounds of a machine whose speed and acceptance are known.
#pragma once

#include "sampling/theory.hpp"
#include "speculation/policy.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace paceline::testing {

using speculation::Plan;
using speculation::RoundObservation;

/// A machine and a pair of models, as rounds show them.
struct Machine {
  double a = 0.7;
  double c = 0.1;          ///< A draft step, in units of a target step of one row.
  double slope = 0;        ///< Of the target step's time, per row.
  double contention = 1;   ///< Factor on all steps while both models work.
  double overhead = 0.005; ///< Of a round.
  double noise = 0.02;     ///< Relative, of times.
  int sequences = 1;
  double guess = 0.5;   ///< That a rejected token's successor has a fork, given 8 rows for it.
  double fork_cost = 0; ///< Of a draft step's time, for each row of forks.
  /// One sequence's steps wait for as much of a window as is best (WindowWaits), not for all.
  bool cuts_windows = false;
  double sharing = 0; ///< What a pass beside a step adds to it, in passes.

  /// What policies are told that steps take.
  double step(int rows) const { return 1 + slope * (rows - 1); }
};

/// A policy for this machine, which may change while it goes on.
inline speculation::SpeculationPolicy policy_on(const Machine& m,
                                                speculation::PolicyOptions options = {}) {
  return {options, [&m](int rows) { return m.step(rows); }};
}

/// Plays rounds of whole batches: sequences accept independently; a round's exposed drafting is
/// hidden for those whose lookahead came true, and happens for all if one of them missed.
class RoundSimulator {
public:
  /// The last round's step: its time, and the draft's beside it.
  struct Step {
    double seconds = 0;
    double beside = 0;
  };
  explicit RoundSimulator(std::uint64_t seed) : random_(seed) {}

  RoundObservation round(const Machine& m, const Plan& plan) {
    RoundObservation r;
    const bool overlap = plan.mode == SpeculationMode::overlap;
    const bool looks_ahead = overlap && plan.lookahead > 0;
    const bool cut = overlap && m.cuts_windows && !hit_;
    const int k = cut ? worth_waiting(m, plan) : plan.window;
    r.mode = plan.mode;
    r.sequences = m.sequences;
    r.window = k;
    const bool waits = plan.mode == SpeculationMode::sync;
    r.rows = m.sequences * (k + 1 + (waits ? plan.tree_rows : 0));
    const double slower = (overlap ? m.contention : 1) * noise(m);
    const double alone = slower * m.step(r.rows);
    const double passes = overlap ? plan.window - k + plan.lookahead : 0;
    const double step = sampling::theory::shared_step(alone, passes * slower * m.c, m.sharing);
    step_ = {step, std::min(step, passes * slower * m.c)};
    r.draft_step_seconds = k > 0 ? slower * m.c : 0;
    const bool hidden = overlap && hit_;
    const double ahead = m.c * slower * (1 + m.fork_cost * plan.fork_rows);
    r.round_seconds =
        m.overhead + (hidden ? std::max(step, (k + 1) * ahead) : step + k * m.c * noise(m));
    r.fork_step_seconds = plan.fork_rows > 0 ? ahead : 0;
    r.fork_rows = plan.fork_rows;
    hit_ = looks_ahead;
    const double guessed = m.guess * std::min(1.0, plan.fork_rows / m.sequences / 8.0);
    for (int i = 0; i < m.sequences; ++i)
      decode_one(m, k, looks_ahead, guessed, r);
    if (r.rows > m.sequences * (k + 1))
      add_tree(m, k, plan.tree_rows, r);
    r.tokens += r.accepted;
    return r;
  }
  const Step& step() const { return step_; }

private:
  double noise(const Machine& m) {
    return std::max(0.5, 1 + m.noise * std::normal_distribution<double>()(random_));
  }

  static int worth_waiting(const Machine& m, const Plan& plan) {
    const int window = plan.window;
    std::vector<double> hits;
    for (int bound = 0; bound <= window; ++bound)
      hits.push_back(plan.lookahead > 0 ? sampling::theory::chain_hit(m.a, bound) : 0);
    const speculation::OverlappedSequence sequence(m.a, hits);
    const auto worth = [&](int waited) {
      return sequence.value(waited) - sequence.rate() * (waited * m.c + m.slope * waited);
    };
    int best = 0;
    for (int waited = 1; waited <= window; ++waited)
      best = worth(waited) > worth(best) ? waited : best;
    return best;
  }

  void decode_one(const Machine& m, int k, bool looks_ahead, double guessed, RoundObservation& r) {
    std::bernoulli_distribution accept(m.a);
    int accepted = 0;
    const int drafted = k + (looks_ahead ? 1 : 0); // the lookahead's first is judged too
    while (accepted < drafted && accept(random_))
      ++accepted;
    r.accepted += accepted;
    r.judged += std::min(accepted + 1, drafted);
    const bool full = accepted == drafted;
    r.tokens += !(looks_ahead && full); // the target's own token
    const bool fork = !full && std::bernoulli_distribution(guessed)(random_);
    hit_ = hit_ && (full || fork);
  }

  /// Adds what rows beside the windows bring, with the guesses that Odds begins with.
  void add_tree(const Machine& m, int k, int rows, RoundObservation& r) {
    sampling::Odds odds;
    odds.acceptance = m.a;
    const double gain = odds.tree_gains(k, rows, true).back();
    r.windows.assign(std::size_t(m.sequences), k);
    r.tree_rows = m.sequences * rows;
    r.tree_expected = m.sequences * gain;
    for (int i = 0; i < m.sequences; ++i)
      r.tokens += int(gain) + std::bernoulli_distribution(gain - int(gain))(random_);
  }

  std::mt19937_64 random_;
  bool hit_ = false;
  Step step_;
};

} // namespace paceline::testing
