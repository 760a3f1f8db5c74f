// A pass that goes through a stage on another machine.
#pragma once

#include "execution/forward_step.hpp"

#include <memory>
#include <optional>

namespace paceline::execution {

/// The pass, from when it leaves the stage before until its rows are back. If it is dropped,
/// wherever that is, it is handed on as failed, so that nobody waits for rows that do not come.
/// Threads: one after the other.
class CrossingPass {
public:
  /// stage: `prepare` tells its workspace which rows are to be sent, where they lie, and where the
  /// rows that come back go. lost: the error of a pass that was dropped.
  CrossingPass(const Stage& stage, std::shared_ptr<ForwardPass> pass,
               std::shared_ptr<base::Telemetry> telemetry, Error lost);
  ~CrossingPass();
  CrossingPass(const CrossingPass&) = delete;
  CrossingPass& operator=(const CrossingPass&) = delete;

  /// Returns false if nothing of the pass is to be run: it failed before, or is known not to go on.
  bool prepare(base::TimePoint now);
  /// Pages to copy before the rows are run.
  const std::vector<gpu::PageCopy>& copies() const { return step_.copies(); }
  /// Hands the pass on to the next stage.
  void complete(base::TimePoint now);
  void fail(Error why);

private:
  void retire(const gpu::Retirement& how);

  std::shared_ptr<base::Telemetry> telemetry_;
  ForwardStep step_;
  Error lost_;
  std::optional<base::TimePoint> begin_;
  bool retired_ = false;
};

} // namespace paceline::execution
