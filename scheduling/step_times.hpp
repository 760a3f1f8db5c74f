// When the target's lane stands still, judged by the steps that were measured on it.
#pragma once

#include "base/clock.hpp"

#include <optional>

namespace paceline::scheduling {

/// How long a batch may take. Passes that read prompts are measured by the row.
class StepTimes {
public:
  /// least: no batch is given up sooner; 0: none ever is.
  explicit StepTimes(base::Duration least) : least_(least) {}

  void observe(int rows, bool prefill, base::Duration took);
  /// None: for ever.
  std::optional<base::Duration> timeout(int rows, bool prefill) const;

private:
  base::Duration least_;
  base::Duration step_{};        ///< Smoothed, of passes that only decode.
  base::Duration prefill_row_{}; ///< And of a row of those that do not.
};

} // namespace paceline::scheduling
