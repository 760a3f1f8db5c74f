#include "sampling/theory.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::sampling::theory {

double acceptance(std::span<const float> p, std::span<const float> q) {
  double sum = 0;
  for (std::size_t i = 0; i < std::min(p.size(), q.size()); ++i)
    sum += double(std::min(p[i], q[i]));
  return sum;
}

double expected_tokens(double a, int window) {
  // This form of the geometric sum has no division, which would fail at a = 1.
  double sum = 1;
  for (int i = 0; i < window; ++i)
    sum = 1 + a * sum;
  return sum;
}

double operations_factor(double a, int window, double c_ops) {
  return (window * c_ops + window + 1) / expected_tokens(a, window);
}

double sync_rate(double a, int window, double c, double v, const Way& way) {
  return expected_tokens(a, window) / (window * c + v + way.round_trip);
}

double chain_hit(double a, int window) {
  return std::pow(a, window + 1);
}

double fork_hit(double a, int window, double guessed) {
  const double chain = chain_hit(a, window);
  return chain + guessed * (1 - chain);
}

double shared_step(double v, double ahead, double sharing) {
  return v + sharing * std::min(ahead, v / (1 - sharing));
}

double overlap_rate(double a, int window, double c, double v, double hit, const Way& way) {
  const double step = shared_step(v, (window + 1) * c, way.sharing);
  const double after_hit = std::max(step / way.stages, (window + 1) * c + way.round_trip);
  const double after_miss = step + window * c + way.round_trip;
  return expected_tokens(a, window) / (hit * after_hit + (1 - hit) * after_miss);
}

double fork_rate(double a, int window, double c, double c_fork, double v, double hit,
                 double sharing) {
  const double step = v / (1 - sharing);
  const double ready = std::min(double(window), std::floor(step / c_fork + 1e-9));
  return expected_tokens(a, window) / (step + (1 - hit) * window * c + hit * (window - ready) * c);
}

double break_even_cost(double a, int window, double v) {
  return (expected_tokens(a, window) - v) / window;
}

namespace {

template <class Rate>
int best_window(int limit, Rate rate) {
  int best = 1;
  for (int window = 2; window <= limit; ++window)
    if (rate(window) > rate(best))
      best = window;
  return best;
}

} // namespace

int best_window_sync(double a, double c, double v_slope, int limit) {
  return best_window(limit, [&](int k) { return sync_rate(a, k, c, 1 + k * v_slope); });
}

int best_window_overlap(double a, double c, double v_slope, int limit) {
  return best_window(
      limit, [&](int k) { return overlap_rate(a, k, c, 1 + k * v_slope, chain_hit(a, k)); });
}

} // namespace paceline::sampling::theory
