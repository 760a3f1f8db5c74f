// A forward pass on the target's lanes, from the moment it is enqueued until it was judged.
#pragma once

#include "execution/handover.hpp"
#include "execution/pass_outcome.hpp"
#include "gpu/lane.hpp"
#include "gpu/operations.hpp"
#include "models/model.hpp"
#include "scheduling/batch.hpp"
#include "speculation/chain.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace paceline::execution {

/// The batch and the handle of its logits. Threads: written by the pass, a stage after the other,
/// and read by the verification that is enqueued behind it on the last stage's lane; but for
/// `outcome`, and for `workspace`, which is set before the last stage has it.
struct ForwardPass {
  explicit ForwardPass(std::size_t stages = 1) : handovers(stages - 1) {}

  scheduling::Batch batch;
  std::shared_ptr<models::Workspace> workspace; ///< logits(): the rows of all entries, in order.
  struct Rows {
    std::vector<TokenId> tokens; ///< Fed: committed ones, then the window.
    std::vector<TokenId> prefix; ///< The entry's `assumed` tokens.
    int window = 0;              ///< Window tokens among them: those that were there in time.
    int first_logit_row = 0;
    int logit_rows = 0;
    std::optional<gpu::PageCopy> copy; ///< Of a fork, before its first rows.
  };
  /// One per entry. Those of forks are behind the batch's own, until it is known which of them came
  /// true: then that is the only one.
  std::vector<Rows> rows;
  int read = 0;               ///< Rows that the first stage was fed.
  gpu::Retirement retirement; ///< Of all stages that it went through; busy: their sum.

  /// Stages whose lanes have come to this pass, in their order. Shared with the passes that have
  /// the next chunks of its prompts. Threads: written by the lanes, read by any.
  using Progress = std::atomic<std::size_t>;
  std::shared_ptr<Progress> entered = std::make_shared<Progress>(0);
  /// Of passes in flight whose chunks this one's go on from; null: of one that the first stage has
  /// not had.
  std::vector<std::shared_ptr<const Progress>> follows;

  std::vector<Handover> handovers; ///< From each stage but the last to the next one.
  speculation::QRow handed;        ///< What the last stage that it went through has left:
  int handed_first = 0;            ///< from this row on
  int handed_count = 0;            ///< so many rows,
  int handed_width = 0;            ///< and so many floats of each.

  bool handed_wanted = false; ///< Those alone whose logits are asked for.

  /// memory: as large as `handed`.
  gpu::Tensor handed_rows(float* memory) const {
    return {memory + std::ptrdiff_t(handed_first) * handed_width, handed_count, handed_width,
            handed_width};
  }
  /// A stage's step has retired.
  void went_through(const gpu::Retirement& how, bool first) {
    if (first) {
      retirement = how;
      return;
    }
    if (retirement.completed)
      retirement.error = how.error;
    retirement.completed &= how.completed;
    retirement.end = how.end;
    retirement.busy += how.busy;
  }

  std::shared_ptr<PassOutcome> outcome = std::make_shared<PassOutcome>();
  /// Of a pre-enqueued batch: that of the pass before. Whose lane gets here lets go of it.
  std::shared_ptr<const PassOutcome> ahead;
};

} // namespace paceline::execution
