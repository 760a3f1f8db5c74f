// The messages between the actors of an engine that no layer below has.
#pragma once

#include "base/clock.hpp"
#include "execution/crossing_pass.hpp"
#include "execution/forward_pass.hpp"
#include "gpu/lane.hpp"
#include "speculation/frontier.hpp"
#include "speculation/sequence.hpp"

#include <cstdint>
#include <memory>

namespace paceline::messages {

/// Caller to facade.
struct Cancel {
  speculation::SequenceId request = 0;
};

/// Engine to facade: refuse new requests, and answer when the last one has ended. Requests that are
/// left after `limit` are cancelled.
struct Drain {
  base::Duration limit{};
};
struct Drained {};

/// Asks the draft for the way to its lane. The answer, Lent, holds as long as the draft actor
/// lives.
struct Borrow {};
struct Lent {
  std::shared_ptr<speculation::DraftInbox> inbox;
};

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

/// An actor's own reminder.
struct Wake {};
/// "Are you alive?"; answered at once even in the middle of a forward pass.
struct Ping {};
struct Pong {};

} // namespace paceline::messages
