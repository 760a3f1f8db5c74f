#include "apps/laboratory/theory/speculation.hpp"

#include <algorithm>

namespace paceline::apps::theory {

WindowGain gain_of(const Quantities& q, int window) {
  using namespace sampling::theory;
  const double v = q.verify(window);
  const auto overlap = [&](double hit) {
    return overlap_rate(q.acceptance, window, q.draft_cost, v, hit, q.way);
  };
  return {.window = window,
          .verify = v,
          .tokens = expected_tokens(q.acceptance, window),
          .operations = operations_factor(q.acceptance, window, q.draft_operations),
          .sync = sync_rate(q.acceptance, window, q.draft_cost, v, q.way),
          .chain = overlap(chain_hit(q.acceptance, window)),
          .forks = overlap(fork_hit(q.acceptance, window, q.guessed)),
          .break_even_cost = break_even_cost(q.acceptance, window, v + q.way.round_trip)};
}

std::vector<WindowGain> sweep(const Quantities& quantities, int longest) {
  std::vector<WindowGain> gains;
  for (int window = 1; window <= longest; ++window)
    gains.push_back(gain_of(quantities, window));
  return gains;
}

const WindowGain& best_of(const std::vector<WindowGain>& gains, double WindowGain::*rate) {
  return *std::ranges::max_element(gains, {}, rate);
}

double acceptance_for(const Quantities& quantities, int longest, double rate) {
  constexpr int halvings = 40;
  double low = 0;
  double high = 1;
  for (int i = 0; i < halvings; ++i) {
    Quantities middle = quantities;
    middle.acceptance = (low + high) / 2;
    // A rate grows with acceptance, whatever the window.
    const bool reached = best_of(sweep(middle, longest), &WindowGain::sync).sync >= rate;
    (reached ? high : low) = middle.acceptance;
  }
  return high;
}

} // namespace paceline::apps::theory
