// Learns from rounds what the acceptance of the models is, and how long steps take.
#pragma once

#include "paceline/event.hpp"
#include "sampling/guess.hpp"

#include <array>
#include <optional>
#include <vector>

namespace paceline::speculation {

using sampling::JudgedByMargin;
using sampling::margin_classes;
using sampling::Odds;

/// One finished round of one batch, as the scheduler saw it. Only *judged* positions count towards
/// acceptance: rows after a rejection say nothing.
struct RoundObservation {
  SpeculationMode mode = SpeculationMode::off;
  bool model = true;        ///< False when only a look-up beside the model could draft.
  int sequences = 0;        ///< Sequences that committed tokens.
  int window = 0;           ///< Longest window in the batch.
  int rows = 0;             ///< Rows of the target step.
  std::vector<int> windows; ///< Windows of the sequences that decode; empty: all alike.
  bool prefill = false;     ///< The step carried prefill rows: its time says nothing of decoding.
  int judged = 0;           ///< Judged tokens, over all sequences.
  int accepted = 0;
  int looked_up = 0;          ///< Judged tokens that a look-up beside the model wrote.
  int looked_up_accepted = 0; ///< Accepted tokens among these.
  JudgedByMargin by_margin;   ///< Tokens by margin, as far as the draft said how sure it was.
  /// Accepted tokens that were to be expected by how sure the draft was, over all sequences; none:
  /// it did not say for all of them.
  std::optional<double> expected;
  int tree_rows = 0;        ///< Rows beside windows, over all sequences.
  double tree_expected = 0; ///< Tokens that rows beside windows should bring, over all sequences.
  /// Tokens that answers' forms wrote. They are in none of the other figures, but for `rows` and
  /// times.
  int formed = 0;
  int tokens = 0;     ///< Committed tokens, over all sequences.
  int lookaheads = 0; ///< Sequences that had a lookahead to hit.
  int hits = 0;
  double round_seconds = 0;      ///< Time from the previous verdict (or first order) to this one.
  double context = 0;            ///< Tokens in the caches that the step saw.
  double draft_step_seconds = 0; ///< Lane time of one drafted token; 0: none drafted.
  double fork_step_seconds = 0;  ///< Lane time of a pass that advances forks; 0: there was none.
  double fork_rows = 0;          ///< Forks that it advances.
  double sharing = 0; ///< What a pass beside a step adds to it, in passes, as far as is known.
};

/// A mean that forgets: it covers about the last `memory` units of weight.
struct FadingMean {
  double value = 0;
  double weight = 0;

  void add(double x, double amount, double memory) {
    weight += amount;
    value += (x - value) * amount / weight;
    limit(memory);
  }
  /// Lets new values count more.
  void limit(double most) { weight = weight < most ? weight : most; }
};

/// The slope of a line through points (least squares) that forgets as FadingMean does.
struct FadingSlope {
  FadingMean x, y, xx, xy;

  void add(double at, double value, double memory) {
    x.add(at, 1, memory);
    y.add(value, 1, memory);
    xx.add(at * at, 1, memory);
    xy.add(at * value, 1, memory);
  }
  /// spread: squared distances from the mean, in all, at which the points outweigh the prior.
  double value(double prior, double spread) const {
    const double rise = x.weight * (xy.value - x.value * y.value);
    const double run = x.weight * (xx.value - x.value * x.value);
    return (rise + spread * prior) / (run + spread);
  }
};

/// Returns `seconds`, but at most three times the expected time: one stall must not pass for the
/// speed of a machine. A real change comes again and is followed in a few steps. expected: 0 when
/// nothing is known yet.
inline double unless_stalled(double seconds, double expected) {
  return expected > 0 && seconds > 3 * expected ? 3 * expected : seconds;
}

/// The estimates of the pair of models: the smoothed acceptance rate a, and how long passes of the
/// draft take. They are a pure function of the rounds observed.
class Estimates {
public:
  explicit Estimates(double prior_acceptance);

  void observe(const RoundObservation& round);
  /// Makes the next judged positions count more than all before, since what was learned may be out
  /// of date.
  void doubt_acceptance() {
    with_model_.acceptance.limit(acceptance_doubted);
    model_acceptance_.limit(acceptance_doubted);
  }

  /// Returns the rate a of rounds in which the model drafts, or else of rounds that leave it to the
  /// look-up beside it.
  double acceptance(bool model = true) const { return yield(model).acceptance.value; }
  /// Returns the acceptance rate of the tokens that are the model's own.
  double model_acceptance() const { return model_acceptance_.value; }
  /// Returns the model's own share of the judged tokens, over rounds in which the model drafts.
  double model_share() const { return model_share_.value; }
  /// Returns the tokens per sequence of rounds that should bring `expected` (`expected_tokens`, on
  /// average), corrected by what rounds have really brought: acceptance is not the same at every
  /// position of a text. model: whether the model drafts in them.
  double tokens_of(double expected, bool model) const;
  /// Returns E for the windows of this round, as the draft says or else by the acceptance rate.
  double expected_tokens(const RoundObservation& round) const;
  /// Returns the window that, if all had it, should bring as much as the windows of this round.
  double mean_window(const RoundObservation& round) const;
  /// Returns the time of a pass that drafts; 0 before the first one was seen.
  double draft_seconds() const { return draft_seconds_.value; }
  /// Returns what so many forks add to that time, on the line through a pass that advances none and
  /// those that were seen; 0 before passes with forks were seen.
  double fork_seconds(double rows) const;
  /// Notes the rank of the guess that took a rejected token's place (-1: none did).
  void observe_guess(int rank);
  /// Returns how many rejections were seen where there were guesses.
  double guesses_seen() const { return guess_.front().weight - prior_weight; }
  Odds odds() const;

private:
  static constexpr double acceptance_memory = 400; // judged positions
  static constexpr double acceptance_doubted = 10;
  static constexpr double prior_weight = 20;
  static constexpr double gain_memory = 200; // rounds
  static constexpr double time_memory = 32;
  static constexpr double guess_memory = 400;  // rejections
  static constexpr double margin_memory = 200; // judged positions of one class
  static constexpr double margin_prior = 8;    // prior weight: the class is like all others

  /// What windows bring, by who drafts.
  struct Yield {
    FadingMean acceptance;
    FadingMean gained{1, prior_weight};   ///< Tokens a round gained by speculation.
    FadingMean expected{1, prior_weight}; ///< Tokens that it was expected to gain.
    double gain() const { return gained.value / expected.value; }
  };
  const Yield& yield(bool model) const { return model ? with_model_ : without_; }
  void observe_drafters(const RoundObservation& round);
  double tokens_by_rate(const RoundObservation& round) const;

  Yield with_model_;
  Yield without_; ///< Rounds of the look-up beside the model alone.
  FadingMean model_acceptance_;
  FadingMean model_share_{1, 1};
  std::array<FadingMean, margin_classes> by_margin_; ///< Acceptance, by how sure the draft was.
  FadingMean draft_seconds_;                         ///< Time of a step that drafts.
  FadingMean fork_seconds_;                          ///< Time of a step that advances forks.
  FadingMean fork_rows_;                             ///< Forks that such a step advances.
  std::array<FadingMean, std::size_t(sampling::limits::guesses_max)> guess_; ///< Hits by rank.
};

} // namespace paceline::speculation
