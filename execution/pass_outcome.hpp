// What becomes of a pass that is enqueued behind another one before that one was judged.
#pragma once

#include "gpu/kv_pool.hpp"
#include "scheduling/batch.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace paceline::execution {

/// One outcome of the passes ahead that a pass has rows for.
struct Branch {
  speculation::ChainRef chain; ///< What goes on then.
  int length = 0;              ///< Committed tokens then,
  int window = 0;              ///< and the chain's behind them that are judged.
  gpu::PageTableRef pages;     ///< That its rows are fed to.
  std::optional<int> own;      ///< scheduling::Feed::own
  double chance = 1;           ///< Of a fork: that its outcome comes true.

  /// Where the next pass stands if all is accepted.
  int end() const { return length + window + 1; }
};

/// Where a sequence of a judged pass goes on.
struct Onset {
  std::size_t entry = 0;       ///< Its number in the judged batch.
  speculation::ChainRef chain; ///< Null: nothing that was drafted for it goes on.
  int length = 0;              ///< Committed tokens.
};

/// A pass waits for the verdict of the one ahead in every target: on one device on the lane, in
/// several stages while it runs. Each was built as if all those ahead of it were accepted; a pass
/// of one sequence may have branches for other outcomes. The verification of the one ahead says
/// which of its branches come true, and passes that have none of what came true end. Threads: any.
class PassOutcome {
public:
  enum class Fate {
    open, ///< Nobody has judged the pass ahead.
    goes_on,
    ends, ///< It is not run any further.
  };

  /// One that waits for nothing: it goes on.
  PassOutcome() = default;
  /// Of a pre-enqueued batch, behind the pass of this outcome. It ends where that was judged.
  static std::shared_ptr<PassOutcome> behind(PassOutcome& ahead, const scheduling::Batch& batch);

  Fate fate() const;
  /// Of a pass that goes on: the numbers of the branches that came true.
  std::vector<std::size_t> came_true() const;
  /// Unless it is known already that it goes on.
  void end();
  /// Once, when the pass' rows have been read: what they are for, in their order, and the branches
  /// of those ahead. False: it ended meanwhile.
  bool begin(std::vector<Branch> branches, std::vector<Branch> ahead);
  /// This one's and those ahead, as far as they may come true.
  std::vector<Branch> branches() const;

  /// The verification of `judged` has found where the sequences go on that are not over; verdicts:
  /// of its batch, which are told which passes go on for each. Those passes stay that have a branch
  /// for each of the sequences, the first of them at once, and the others end: a pass for some
  /// would leave the others behind, and read the weights once more for them. A pass that has not
  /// begun stays as what it was built for, if it is the next one only with its whole windows bound.
  static void go_on(PassOutcome& judged, std::span<const Onset> onsets,
                    std::span<scheduling::Verdict> verdicts);

private:
  std::shared_ptr<PassOutcome> close();
  std::shared_ptr<PassOutcome> next() const;
  std::vector<scheduling::Continuation> follow(std::span<const Onset> onsets, bool next);
  std::optional<std::size_t> branch_for(const Onset& onset, bool next) const;

  std::uint64_t batch_ = 0;
  mutable std::mutex mutex_;
  Fate fate_ = Fate::goes_on;
  std::vector<std::size_t> came_true_;
  bool begun_ = false;
  bool judged_ = false;
  std::vector<Branch> branches_; ///< Before it has begun: of each entry, what it was built for.
  std::vector<Branch> ahead_;
  std::weak_ptr<PassOutcome> next_;
};

} // namespace paceline::execution
