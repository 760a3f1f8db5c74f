// Shares the rows of one step among the windows of several sequences.
#pragma once

#include "paceline/event.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace paceline::speculation {

/// The tokens that the first, the second, ... token of a window is expected to bring to one
/// sequence. No token brings more than the one before it.
class WindowGains {
public:
  static constexpr int tokens_max = 16;

  WindowGains() = default;
  /// Returns the gains of windows that are waited for: a, a^2, ...
  static WindowGains synchronous(double acceptance, int tokens);
  /// Returns those of windows that nobody waits for (OverlappedSequence). hits: by the window,
  /// [tokens + 1].
  static WindowGains overlapped(double acceptance, std::span<const double> hits);

  int tokens() const { return tokens_; }
  /// Returns the gain of a token, counted from 1.
  double operator[](int token) const { return gains_[std::size_t(token - 1)]; }

private:
  void add(double gain);
  std::array<double, tokens_max> gains_{};
  int tokens_ = 0;
};

/// A sequence whose windows nobody has to wait for, as a Markov chain: a step finds its window of K
/// all there, or a part of it.
class OverlappedSequence {
public:
  /// hits: the chance that the next window is there behind so many tokens, [K + 1].
  OverlappedSequence(double acceptance, std::span<const double> hits);
  /// Returns the tokens per step, where no step waits.
  double rate() const { return rate_; }
  /// Returns the value of a step with `bound` tokens of the window: its own tokens, and what it is
  /// worth that the next step may find a window (Howard 1960, "Dynamic programming and Markov
  /// processes": the relative value).
  double value(int bound) const;

private:
  double acceptance_;
  std::vector<double> hits_;
  double rate_;
  double readiness_; ///< Worth of having a window, in tokens.
};

/// The step that the windows are for.
struct ShareTerms {
  int rows = 0;     ///< Rows without windows: one of each decoding sequence, and those of prompts.
  int rows_max = 0; ///< Most rows with windows; those of `shortest` and `scouts` may exceed it.
  int longest = 0;  ///< The longest window that is allowed.
  int shortest = 0; ///< Shortest window of each sequence that gains anything.
  int scouts = 0;   ///< Sequences that have at least one token, to learn what drafts are worth.
  /// Seconds that drafting adds to the step, by the longest window; null: none.
  std::function<double(int window)> drafting;
  std::function<double(int rows)> seconds; ///< Seconds that a step of so many rows takes.
};

struct WindowShares {
  std::vector<int> windows; ///< K for each sequence, 0 for none.
  double rate = 0;          ///< Tokens per second that they are expected to bring.
};

/// Returns the windows of most expected tokens per second. Each row is worth what it is expected to
/// bring over the time that it adds, whichever sequence it belongs to; a row of a prompt brings a
/// token.
WindowShares share_windows(std::span<const WindowGains> sequences, const ShareTerms& terms);

} // namespace paceline::speculation
