// A forward pass on the target's lanes, from the moment it is enqueued until it was judged.
#pragma once

#include "execution/handover.hpp"
#include "execution/pass_outcome.hpp"
#include "execution/token_tree.hpp"
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

/// The batch and the handle of its logits. Threads: written by the pass, one stage after the other,
/// and read by the verification that is enqueued behind it on the last stage's lane. Exceptions are
/// `outcome`, and `workspace`, which is set before the last stage has the pass.
struct ForwardPass {
  explicit ForwardPass(std::size_t stages = 1) : handovers(stages - 1) {}

  scheduling::Batch batch;
  std::shared_ptr<models::Workspace> workspace; ///< logits(): the rows of all entries, in order.
  struct Rows {
    std::vector<TokenId> tokens; ///< Tokens fed: committed ones, then the window.
    std::vector<TokenId> prefix; ///< The entry's `assumed` tokens.
    int window = 0;              ///< Number of window tokens among them, which were there in time.
    int first_logit_row = 0;
    int logit_rows = 0;
    std::optional<gpu::PageCopy> copy; ///< A fork's page copy, made before its first rows.
    std::vector<TreePath> paths;       ///< Rows beside the window, behind the entry's own.
  };
  /// One per entry. Entries of forks stand behind the batch's own until it is known which one came
  /// true; then that is the only one.
  std::vector<Rows> rows;
  int read = 0; ///< Rows that the first stage was fed.
  gpu::Retirement
      retirement; ///< Joined over all stages that the pass went through; busy: their sum.

  /// Stages whose lanes have come to this pass, in their order. Shared with the passes that have
  /// the next chunks of its prompts. Threads: written by the lanes, read by any.
  using Progress = std::atomic<std::size_t>;
  std::shared_ptr<Progress> entered = std::make_shared<Progress>(0);
  /// Progress of the passes in flight whose prompt chunks this pass goes on from; null: the first
  /// stage has not had that pass.
  std::vector<std::shared_ptr<const Progress>> follows;

  std::vector<Handover> handovers; ///< One from each stage but the last to the next one.
  speculation::QRow handed;        ///< Rows that the last stage it went through has left.
  int handed_first = 0;            ///< First of the rows that count.
  int handed_count = 0;            ///< Number of rows that count.
  int handed_width = 0;            ///< Floats of each row.

  bool handed_wanted = false; ///< Only rows whose logits are asked for were handed on.

  /// memory: as large as `handed`.
  gpu::Tensor handed_rows(float* memory) const {
    return {memory + std::ptrdiff_t(handed_first) * handed_width, handed_count, handed_width,
            handed_width};
  }
  /// Takes down that a stage's step has retired.
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
  /// The outcome of the pass before, if the batch is pre-enqueued. The lane that gets here drops
  /// it.
  std::shared_ptr<const PassOutcome> ahead;
};

} // namespace paceline::execution
