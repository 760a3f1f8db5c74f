// Between the actors of a target step.
#pragma once

#include "execution/crossing_pass.hpp"
#include "execution/forward_pass.hpp"
#include "gpu/lane.hpp"

#include <cstdint>
#include <memory>

namespace paceline::messages {

/// A stage of the target to the next one: a pass that was enqueued. Its lanes hand it over by
/// themselves; who is told says what follows there (ForwardPass::handovers).
struct StagePass {
  std::shared_ptr<execution::ForwardPass> pass;
};

/// To a stage on another machine, from the lane of the stage before: a pass has got here.
struct StageArrived {
  std::shared_ptr<execution::CrossingPass> pass;
};

/// Target to sampler: a pass that was enqueued, and leave to enqueue verification behind it.
struct Logits {
  std::shared_ptr<execution::ForwardPass> pass;
  std::shared_ptr<gpu::Lane> lane;
  /// The last stage's step where it is still to be enqueued: of a pre-enqueued pass, which has to
  /// stand behind the verification of the one before, which the sampler enqueues; and of a pass
  /// that comes from another stage, behind which nothing may slip in. Null: it is on the lane.
  std::shared_ptr<gpu::Step> step{};
};

/// All windows the scheduler waits for are there. ticket: which wait.
struct WindowsReady {
  std::uint64_t ticket = 0;
};

} // namespace paceline::messages
