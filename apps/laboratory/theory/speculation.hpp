// What speculation brings by docs/theory.md, window by window.
#pragma once

#include "sampling/theory.hpp"

#include <array>
#include <functional>
#include <vector>

namespace paceline::apps::theory {

/// The quantities of docs/theory.md; times are in plain target steps of one row.
struct Quantities {
  double acceptance = 0.8;        ///< a
  double draft_cost = 0.05;       ///< c: time of a draft step.
  double draft_operations = 0.05; ///< Operations of the draft over the target's, per token.
  std::function<double(int window)> verify = [](int) { return 1.0; }; ///< v, of K+1 rows.
  double guessed = 0; ///< Share of the rejections whose token has a fork.
  sampling::theory::Way way;
};

/// Figures of one window length. Rates are tokens in the time of a plain target step, and so
/// factors over plain decoding.
struct WindowGain {
  int window = 0;             ///< K
  double verify = 0;          ///< v
  double tokens = 0;          ///< Tokens of a round, E.
  double operations = 0;      ///< Factor by which arithmetic grows.
  double sync = 0;            ///< Rate of `sync`.
  double chain = 0;           ///< Rate of `overlap` with a chain.
  double forks = 0;           ///< Rate of `overlap` with forks.
  double break_even_cost = 0; ///< Cost of a draft step at which `sync` gains nothing.
};

/// A mode that has a formula.
struct Mode {
  const char* key;
  const char* name;
  double WindowGain::*rate;
};
inline constexpr std::array modes{Mode{"sync", "sync", &WindowGain::sync},
                                  Mode{"overlap_chain", "overlap, chain", &WindowGain::chain},
                                  Mode{"overlap_forks", "overlap, forks", &WindowGain::forks}};

WindowGain gain_of(const Quantities& quantities, int window);

/// Returns the figures of windows 1 to `longest`.
std::vector<WindowGain> sweep(const Quantities& quantities, int longest);

/// Returns the shortest window of the highest rate. gains: not empty.
const WindowGain& best_of(const std::vector<WindowGain>& gains, double WindowGain::*rate);

/// Returns the least acceptance at which the best window of `sync`, of 1 to `longest`, reaches a
/// rate; 1: none does, or only that.
double acceptance_for(const Quantities& quantities, int longest, double rate);

} // namespace paceline::apps::theory
