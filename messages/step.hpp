// The messages between the actors of a target step.
#pragma once

#include "execution/crossing_pass.hpp"
#include "execution/forward_pass.hpp"
#include "gpu/lane.hpp"

#include <cstdint>
#include <memory>

namespace paceline::messages {

/// A stage of the target to the next one: a pass that was enqueued. The lanes hand the pass over by
/// themselves; the receiver says what follows on its lane (ForwardPass::handovers).
struct StagePass {
  std::shared_ptr<execution::ForwardPass> pass;
};

/// Lane of a stage to the actor of the next, on another machine: a pass is to cross to there.
struct StageArrived {
  std::shared_ptr<execution::CrossingPass> pass;
};

/// Target to sampler: a pass that was enqueued, and leave to enqueue verification behind it.
struct Logits {
  std::shared_ptr<execution::ForwardPass> pass;
  std::shared_ptr<gpu::Lane> lane;
  /// The last stage's step, when the sampler is to enqueue it: a pre-enqueued pass has to stand
  /// behind the verification of the one before, which the sampler enqueues, too; and nothing may
  /// slip in behind a pass that comes from another stage. Null: the step is on the lane already.
  std::shared_ptr<gpu::Step> step{};
};

/// All windows that the scheduler waits for are there. `ticket` is the number of that wait.
struct WindowsReady {
  std::uint64_t ticket = 0;
};

} // namespace paceline::messages
