// When a lane stands still, judged by the steps that were measured on it.
#pragma once

#include "base/clock.hpp"

#include <cstdint>
#include <optional>

namespace paceline::actors {

/// The target's lane: how long a batch may take. Passes that read prompts are measured by the row.
class StepTimes {
public:
  /// least: no batch is given up sooner; 0: none ever is.
  explicit StepTimes(base::Duration least) : least_(least) {}

  void observe(int rows, bool prefill, base::Duration took);
  /// None: for ever.
  std::optional<base::Duration> patience(int rows, bool prefill) const;

private:
  base::Duration least_;
  base::Duration step_{};        ///< Smoothed, of passes that only decode.
  base::Duration prefill_row_{}; ///< And of a row of those that do not.
};

/// The draft's lane, which answers nobody: it owes tokens, and nothing of what it writes grows.
class DraftWatch {
public:
  /// least: as above.
  explicit DraftWatch(base::Duration least) : least_(least) {}

  /// To be told now and then. owes: there is something that it should be writing. written: anything
  /// that changes whenever it has written. step: how long a token takes it. True: it stands still
  /// (once; then the watch begins anew, for its successor).
  bool stands_still(bool owes, std::uint64_t written, base::Duration step, base::TimePoint now);

private:
  base::Duration least_;
  std::uint64_t written_ = 0;
  std::optional<base::TimePoint> silent_since_;
};

} // namespace paceline::actors
