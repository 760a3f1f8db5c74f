#include "sampling/policy.hpp"

#include "sampling/theory.hpp"

namespace paceline::sampling {

SpeculationPolicy::SpeculationPolicy(PolicyOptions options)
    : options_(options), acceptance_(options.prior_acceptance),
      cost_ratio_(options.prior_cost_ratio) {}

void SpeculationPolicy::observe(const RoundObservation&) {}

Plan SpeculationPolicy::plan() const {
  Plan plan{options_.mode, 0, 0};
  if (plan.mode == SpeculationMode::automatic)
    plan.mode = SpeculationMode::sync;
  if (plan.mode == SpeculationMode::off)
    return plan;
  plan.window = options_.window.value_or(
      theory::best_window_sync(acceptance_, cost_ratio_, 0, options_.window_limit));
  if (plan.mode == SpeculationMode::overlap && options_.lookahead)
    plan.lookahead = plan.window + 1;
  return plan;
}

double SpeculationPolicy::acceptance() const {
  return acceptance_;
}
double SpeculationPolicy::cost_ratio() const {
  return cost_ratio_;
}
double SpeculationPolicy::v(int) const {
  return 1;
}
bool SpeculationPolicy::worth_waiting(int bound, int window) const {
  return bound < window;
}

void SequenceThrottle::observe(int judged, int accepted) {
  if (judged == 0)
    return;
  score_ += 0.1 * (double(accepted) / judged - score_);
  if (score_ < 0.1) {
    pause_ = next_pause_;
    next_pause_ *= 2;
    score_ = 0.5;
  }
}

void SequenceThrottle::observe_plain() {
  if (pause_ > 0)
    --pause_;
}

} // namespace paceline::sampling
