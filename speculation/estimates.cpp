#include "speculation/estimates.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::speculation {

Estimates::Estimates(double prior_acceptance)
    : with_model_{{prior_acceptance, prior_weight}}, without_(with_model_),
      model_acceptance_(with_model_.acceptance) {
  for (std::size_t rank = 0; rank < guess_.size(); ++rank)
    guess_[rank] = {Odds{}.guess[rank], prior_weight};
}

namespace {

/// Returns theory::expected_tokens of a mean window, which need not be a whole number.
double geometric_tokens(double a, double window) {
  return a > 1 - 1e-9 ? window + 1 : (1 - std::pow(a, window + 1)) / (1 - a);
}

} // namespace

void Estimates::observe(const RoundObservation& round) {
  Yield& yield = round.model ? with_model_ : without_;
  if (round.judged > 0)
    yield.acceptance.add(double(round.accepted) / round.judged, round.judged, acceptance_memory);
  observe_drafters(round);
  for (std::size_t i = 0; i < margin_classes; ++i)
    if (const int judged = round.by_margin.judged[i])
      by_margin_[i].add(double(round.by_margin.accepted[i]) / judged, judged, margin_memory);
  if (round.prefill || round.sequences == 0)
    return;
  const double expected = expected_tokens(round) - 1;
  if (round.judged > 0 && expected > 0) {
    yield.gained.add(double(round.tokens) / round.sequences - 1, 1, gain_memory);
    yield.expected.add(expected, 1, gain_memory);
  }
  if (round.draft_step_seconds > 0)
    draft_seconds_.add(unless_stalled(round.draft_step_seconds, draft_seconds_.value), 1,
                       time_memory);
  if (round.fork_step_seconds > 0) {
    fork_seconds_.add(unless_stalled(round.fork_step_seconds, fork_seconds_.value), 1, time_memory);
    fork_rows_.add(round.fork_rows, 1, time_memory);
  }
}

void Estimates::observe_drafters(const RoundObservation& round) {
  const int judged = round.judged - round.looked_up;
  const int accepted = round.accepted - round.looked_up_accepted;
  if (judged > 0)
    model_acceptance_.add(double(accepted) / judged, judged, acceptance_memory);
  if (round.model && round.judged > 0)
    model_share_.add(double(judged) / round.judged, round.judged, acceptance_memory);
}

double Estimates::expected_tokens(const RoundObservation& round) const {
  const double chain =
      round.expected ? 1 + *round.expected / round.sequences : tokens_by_rate(round);
  return chain + round.tree_expected / round.sequences;
}

/// Returns E for the windows of this round by the acceptance rate.
double Estimates::tokens_by_rate(const RoundObservation& round) const {
  const double a = std::clamp(acceptance(round.model), 1e-3, 1 - 1e-6);
  if (round.windows.empty())
    return geometric_tokens(a, double(round.rows) / round.sequences - 1);
  double tokens = 0;
  for (const int window : round.windows)
    tokens += geometric_tokens(a, window);
  return tokens / double(round.windows.size());
}

double Estimates::mean_window(const RoundObservation& round) const {
  if (round.windows.empty())
    return double(round.rows) / round.sequences - 1;
  const double a = std::clamp(acceptance(round.model), 1e-3, 1 - 1e-6);
  return std::log1p((a - 1) * tokens_by_rate(round)) / std::log(a) - 1;
}

double Estimates::tokens_of(double expected, bool model) const {
  return 1 + yield(model).gain() * (expected - 1);
}

double Estimates::fork_seconds(double rows) const {
  if (fork_rows_.value <= 0)
    return 0;
  return std::max(0.0, fork_seconds_.value - draft_seconds_.value) * rows / fork_rows_.value;
}

void Estimates::observe_guess(int rank) {
  for (std::size_t i = 0; i < guess_.size(); ++i)
    guess_[i].add(int(i) == rank ? 1 : 0, 1, guess_memory);
}

Odds Estimates::odds() const {
  Odds odds;
  odds.acceptance = acceptance();
  for (std::size_t i = 0; i < margin_classes; ++i) {
    FadingMean shrunk = by_margin_[i];
    shrunk.add(acceptance(), margin_prior, margin_memory);
    odds.by_margin[i] = shrunk.value;
  }
  for (std::size_t rank = 0; rank < guess_.size(); ++rank)
    odds.guess[rank] = guess_[rank].value;
  return odds;
}

} // namespace paceline::speculation
