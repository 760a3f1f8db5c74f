// What a step of the target costs, learned from its own steps.
#pragma once

#include "base/clock.hpp"
#include "speculation/estimates.hpp"

#include <array>
#include <cstddef>
#include <optional>

namespace paceline::scheduling {

/// Lane time as a function of a step's rows, whoever they are of, and of the tokens of context that
/// they see. Rows are kept by powers of two, with straight lines between them, because time over
/// rows is a hinge: reading the weights at first, arithmetic later. Context adds to it in
/// proportion, by what steps of like rows show.
class StepCost {
public:
  /// context: tokens in the caches, over all sequences of the step.
  void observe(int rows, double context, base::Duration took);
  /// A step of about so many rows was observed.
  bool knows(int rows) const { return bins_[bin_of(rows)].rows.weight > 0; }
  /// None as long as nothing was observed.
  std::optional<base::Duration> predict(int rows, double context) const;

  /// The same for who would try more rows than were ever observed, up to twice as many: as if they
  /// were free, for a step will tell.
  std::optional<base::Duration> predict_boldly(int rows, double context) const;

  /// When its lane counts as standing still: `limits::stall_steps` times as long as it should take,
  /// and no sooner than `least`.
  base::Duration timeout(int rows, double context, base::Duration least) const;

  /// The most rows, up to `most`, of a step that takes no longer than this; at least 1, and `most`
  /// as long as nothing was observed.
  int rows_within(base::Duration limit, double context, int most) const;
  /// The fewest rows, up to `most`, whose time per row is nearly as good as it gets: more would
  /// make the step longer, and hardly anything faster.
  int knee(double context, int most) const;

  /// Of the last predictions, each made before its step was observed: the median of the errors
  /// over the times. 0: there was none.
  double median_error() const { return median_error_; }

private:
  struct Bin {
    speculation::FadingMean rows;
    speculation::FadingMean context;
    speculation::FadingMean seconds;
  };
  struct Point {
    double context = 0;
    double seconds = 0;
  };
  static std::size_t bin_of(int rows);
  void note_error(double error);
  Point at(double rows) const;
  double seconds(int rows, double context) const;
  double per_context_token() const;

  static constexpr std::size_t bins = 20; ///< By the width of the number of rows in bits.
  std::array<Bin, bins> bins_;
  speculation::FadingMean context_variance_;
  speculation::FadingMean context_covariance_; ///< With the seconds.
  std::array<double, 32> errors_{};
  std::size_t observed_ = 0;
  double median_error_ = 0;
};

} // namespace paceline::scheduling
