// Between the actors of a target step.
#pragma once

#include "execution/forward_pass.hpp"
#include "gpu/lane.hpp"

#include <cstdint>
#include <memory>

namespace paceline::messages {

/// Target to sampler: a pass that was enqueued, and leave to enqueue verification behind it.
struct Logits {
  std::shared_ptr<execution::ForwardPass> pass;
  std::shared_ptr<gpu::Lane> lane;
  /// A pre-enqueued pass, still to be enqueued: it has to stand behind the verification of the one
  /// before, which the sampler enqueues. Null: it is on the lane.
  std::shared_ptr<gpu::Step> step{};
};

/// All windows the scheduler waits for are there. ticket: which wait.
struct WindowsReady {
  std::uint64_t ticket = 0;
};

} // namespace paceline::messages
