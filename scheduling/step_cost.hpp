// Learns what a step of the target costs from its own steps.
#pragma once

#include "base/clock.hpp"
#include "speculation/estimates.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

namespace paceline::scheduling {

/// The time expected before a step was observed: that of reading weights, or of the arithmetic if
/// it is longer.
struct StepPrior {
  double weights = 0; ///< Seconds in which the weights are read that every step reads.
  double row = 0;     ///< Seconds that the arithmetic of a row takes. 0, as weights: not known.
  double experts = 0; ///< Seconds in which the weights of all experts are read.
  double share = 0;   ///< The part of the experts that a row goes to.

  bool is_known() const { return weights > 0; }
  /// Returns the seconds if rows choose their experts independently: `rows` of them leave out an
  /// expert with probability (1 - share)^rows.
  double seconds(double rows) const {
    return std::max(weights + experts * (1 - std::pow(1 - share, rows)), rows * row);
  }
};

/// Models lane time as a function of a step's rows, whichever sequence they belong to, and of the
/// tokens of context that they see. Rows are kept by size, each of them up to 8 and four sizes to
/// every doubling from there, with straight lines between them, because time over rows is a hinge:
/// reading the weights at first, arithmetic later. A size ends where a tile of the kernels does, so
/// that no mean is over both sides of a bend there. Context adds to it in proportion, by what steps
/// with similar rows show, and so does the time that a draft works beside it on the same device.
class StepCost {
public:
  explicit StepCost(StepPrior prior = {}) : prior_(prior) {}

  /// context: tokens in the caches, over all sequences of the step. beside: what the draft worked
  /// during the step on a device that both share.
  void observe(int rows, double context, base::Duration took, base::Duration beside = {});
  /// Returns what the draft's time beside a step adds to the step, as a share of that time.
  double sharing() const { return std::clamp(sharing_.value, 0.0, sharing_max); }
  /// Says whether a step was observed, so that predictions are more than the prior.
  bool is_measured() const { return observed_ > 0; }
  /// Says whether a step of about so many rows, or at least of half as many, was observed.
  bool knows(int rows) const;
  /// Predicts a step beside which the draft works as it did lately. Returns none as long as nothing
  /// was observed and there is no prior.
  std::optional<base::Duration> predict(int rows, double context) const;

  /// Predicts a step with nothing beside it, as predict_least does, for callers that would try a
  /// size that was never observed, since a step will tell: up to twice the next smaller one as if
  /// the rows between were free, and below all of them on the line through the smallest two. Where
  /// there is a prior, it says how the nearest size's time goes on.
  std::optional<base::Duration> predict_boldly(int rows, double context) const;

  /// Predicts for callers that choose a size and go on with what it takes: the least time that the
  /// sizes observed leave possible, so that one which only a guess rules out is tried. Time over
  /// rows being a hinge, that is no less than fewer rows take, and no less than the rows' share of
  /// what more take; above all sizes it is the line through the largest two. A size observed with
  /// less context counts as it was, since how much more it takes now was never seen.
  std::optional<base::Duration> predict_least(int rows, double context) const;

  /// Returns when the lane counts as standing still: after `limits::stall_steps` times as long as
  /// the step should take, and no sooner than `least`.
  base::Duration timeout(int rows, double context, base::Duration least) const;

  /// Returns the most rows, up to `most`, of a step that takes no longer than this; at least 1, and
  /// `most` as long as nothing is known.
  int rows_within(base::Duration limit, double context, int most) const;
  /// Returns the fewest rows, up to `most`, whose time per row is nearly as good as it gets: more
  /// would make the step longer, and hardly anything faster.
  int knee(double context, int most) const;

  /// Returns the median relative error of the last predictions, each made before its step was
  /// observed. 0: there was none.
  double median_error() const { return median_error_; }

private:
  struct Bin {
    int size = 0;
    speculation::FadingMean rows;
    speculation::FadingMean context;
    speculation::FadingMean seconds; ///< With what the draft's time beside it added.
    speculation::FadingMean beside;
  };
  struct Point {
    double context = 0;
    double seconds = 0;
  };
  bool is_known() const { return is_measured() || prior_.is_known(); }
  static int size_of(int rows);
  Bin& bin_of(int rows);
  void note_error(double error);
  double alone(const Bin& bin) const;
  double alone(int rows, double context, bool boldly = false) const;
  Point at(int rows, bool boldly) const;
  double unseen(const Bin& nearest, int rows) const;
  double below_all(int rows) const;
  double least_seconds(const Bin& bin, double context) const;
  double least_above_all(int rows, double context) const;
  double least_seconds(int rows, double context) const;
  double seconds(int rows, double context) const;
  double per_context_token() const;

  static constexpr double sharing_max = 0.95;   // else a step would never end
  static constexpr double sharing_prior = 0.05; // squared steps of the draft's time
  StepPrior prior_;
  std::vector<Bin> bins_; ///< Observed sizes, the smallest first.
  speculation::FadingMean context_variance_;
  speculation::FadingMean context_covariance_; ///< Covariance with the seconds.
  speculation::FadingMean beside_;             ///< Of the last steps of all sizes.
  speculation::FadingMean sharing_{0, sharing_prior};
  std::array<double, 32> errors_{};
  std::size_t observed_ = 0;
  double median_error_ = 0;
};

} // namespace paceline::scheduling
