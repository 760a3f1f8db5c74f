// A forward pass on the target's lanes, from the moment it is enqueued until it was judged.
#pragma once

#include "execution/handover.hpp"
#include "gpu/lane.hpp"
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
/// `followed`, and for `workspace`, which is set before the last stage has it.
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
    bool goes_on = false; ///< Verdict::goes_on, for the pre-enqueued step behind this one.
  };
  std::vector<Rows> rows;     ///< One per entry.
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
  int handed_count = 0;            ///< so many rows,
  int handed_width = 0;            ///< and so many floats of each.

  /// memory: as large as `handed`.
  gpu::Tensor handed_rows(float* memory) const {
    return {memory, handed_count, handed_width, handed_width};
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

  /// Of a pre-enqueued batch: the pass before. The lane lets go of it when it gets here, or the
  /// last stage's does, and leaves the entries that run.
  std::shared_ptr<ForwardPass> before;
  /// Writer: the sampler, once (release), when the pre-enqueued batch behind this one is on the
  /// lane with all its steps; of a target in stages the first stage's actor. Reader: this pass'
  /// verification (acquire).
  std::atomic<bool> followed{false};

  /// Of a target in stages, where the pre-enqueued pass behind this one may be under way before
  /// this one was judged: whether that goes on. Said once, by this pass' verification; or, that it
  /// ends, by who would have run it.
  enum class Fate { open, goes_on, ends };
  std::atomic<Fate> behind{Fate::open};
  /// False: the other was said already.
  bool decide(Fate fate) {
    Fate said = Fate::open;
    return behind.compare_exchange_strong(said, fate, std::memory_order_acq_rel) || said == fate;
  }
};

} // namespace paceline::execution
