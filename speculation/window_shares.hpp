// Windows of several sequences, which compete for the rows of one step.
#pragma once

#include "paceline/event.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace paceline::speculation {

/// What the tokens of a window are expected to bring to one sequence: the first, the second, ...
/// No token brings more than the one before it.
class WindowGains {
public:
  static constexpr int tokens_max = 16;

  WindowGains() = default;
  /// Of windows that are waited for: a, a^2, ...
  static WindowGains synchronous(double acceptance, int tokens);
  /// Of windows that nobody waits for (OverlappedSequence). hits: by the window, [tokens + 1].
  static WindowGains overlapped(double acceptance, std::span<const double> hits);

  int tokens() const { return tokens_; }
  /// token: from 1 on.
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
  /// hits: the chance that behind so many tokens the next window is there, [K + 1].
  OverlappedSequence(double acceptance, std::span<const double> hits);
  /// Tokens a step, where no step waits.
  double rate() const { return rate_; }
  /// Of a step with `bound` tokens of the window: its own tokens, and what it is worth that the
  /// next step may find a window (Howard 1960, "Dynamic programming and Markov processes": the
  /// relative value).
  double value(int bound) const;

private:
  double acceptance_;
  std::vector<double> hits_;
  double rate_;
  double readiness_; ///< What it is worth to have a window.
};

/// The step that the windows are for.
struct ShareTerms {
  int rows = 0;     ///< Without windows: one of each sequence that decodes, and of prompts.
  int rows_max = 0; ///< With them; those of `shortest` and `scouts` are had all the same.
  int longest = 0;  ///< No window is longer.
  int shortest = 0; ///< Of each sequence that gains anything.
  int scouts = 0;   ///< So many sequences have a token at least, to learn what drafts are worth.
  /// Seconds that drafting adds to the step, by the longest window; null: none.
  std::function<double(int window)> drafting;
  std::function<double(int rows)> seconds; ///< That a step of so many rows takes.
};

struct WindowShares {
  std::vector<int> windows; ///< K for each sequence, 0 for none.
  double rate = 0;          ///< Tokens a second that they are expected to bring.
};

/// The windows of most expected tokens per second. Each row is worth what it is expected to bring
/// over the time that it adds, whoever it is of; a row of a prompt brings a token.
WindowShares share_windows(std::span<const WindowGains> sequences, const ShareTerms& terms);

} // namespace paceline::speculation
