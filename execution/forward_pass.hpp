// A forward pass on the target's lane, from the moment it is enqueued until it was judged.
#pragma once

#include "gpu/lane.hpp"
#include "models/model.hpp"
#include "scheduling/batch.hpp"

#include <atomic>
#include <memory>
#include <vector>

namespace paceline::execution {

/// The batch and the handle of its logits. Threads: written by the pass, read by the verification
/// that is enqueued behind it on the same lane, but for `followed`.
struct ForwardPass {
  scheduling::Batch batch;
  std::shared_ptr<models::Workspace> workspace; ///< logits(): the rows of all entries, in order.
  struct Rows {
    std::vector<TokenId> tokens; ///< Fed: committed ones, then the window.
    std::vector<TokenId> prefix; ///< The entry's `assumed` tokens.
    int window = 0;              ///< Window tokens among them: those that were there in time.
    int first_logit_row = 0;
    int logit_rows = 0;
    bool goes_on = false; ///< Verdict::goes_on, for the pre-enqueued step behind this one.
  };
  std::vector<Rows> rows; ///< One per entry.
  gpu::Retirement retirement;

  /// Of a pre-enqueued batch: the pass before. The lane lets go of it when it gets here, and leaves
  /// the entries that run.
  std::shared_ptr<ForwardPass> before;
  /// Writer: the sampler, once (release), when the pre-enqueued batch behind this one is on the
  /// lane with all its steps. Reader: this pass' verification (acquire).
  std::atomic<bool> followed{false};
};

} // namespace paceline::execution
