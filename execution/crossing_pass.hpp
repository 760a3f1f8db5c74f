// A pass that goes through a stage on another machine.
#pragma once

#include "execution/forward_step.hpp"

#include <memory>
#include <optional>

namespace paceline::execution {

/// The pass, from when it leaves the stage before until its rows are back. Whoever drops it, on
/// whatever way, hands it on as failed, so that nobody waits for what does not come.
/// Threads: one after the other.
class CrossingPass {
public:
  /// stage: its workspace is told by `prepare` what is to be sent, where it lies, and where what
  /// comes back goes. lost: what is said of a pass that was dropped.
  CrossingPass(const Stage& stage, std::shared_ptr<ForwardPass> pass,
               std::shared_ptr<base::Telemetry> telemetry, Error lost);
  ~CrossingPass();
  CrossingPass(const CrossingPass&) = delete;
  CrossingPass& operator=(const CrossingPass&) = delete;

  /// False: nothing is to be run of it (it failed before, or is known not to go on).
  bool prepare(base::TimePoint now);
  /// Pages to copy before what is to be run.
  const std::vector<gpu::PageCopy>& copies() const { return step_.copies(); }
  /// It goes to the next stage.
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
