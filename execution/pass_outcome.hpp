// The fate of a pass that is enqueued behind another one before that one was judged.
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
  speculation::ChainRef chain; ///< The chain that goes on then.
  int length = 0;              ///< Committed tokens then.
  int window = 0;              ///< The chain's tokens behind them that are judged.
  gpu::PageTableRef pages;     ///< Pages that its rows are fed to.
  std::optional<int> own;      ///< scheduling::Feed::own
  double chance = 1;           ///< Probability that a fork's outcome comes true.

  /// Returns the position at which the next pass begins if all is accepted.
  int end() const { return length + window + 1; }
};

/// The point at which a sequence of a judged pass goes on.
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

  /// Makes the outcome of a pass that waits for nothing: it goes on.
  PassOutcome() = default;
  /// Makes the outcome of a pre-enqueued batch behind the pass of `ahead`. If that pass was judged
  /// already, the new one ends.
  static std::shared_ptr<PassOutcome> behind(PassOutcome& ahead, const scheduling::Batch& batch);

  Fate fate() const;
  /// Returns the numbers of the branches that came true, for a pass that goes on.
  std::vector<std::size_t> came_true() const;
  /// Ends the pass, unless it is known already that it goes on.
  void end();
  /// Is called once, when the pass' rows have been read, with what they are for, in their order,
  /// and the branches of the passes ahead. Returns false if the pass ended meanwhile.
  bool begin(std::vector<Branch> branches, std::vector<Branch> ahead);
  /// Returns this pass' branches and those ahead, as far as they may come true.
  std::vector<Branch> branches() const;

  /// Is called when the verification of `judged` has found where the sequences that are not over go
  /// on. verdicts: those of its batch, which are told which passes go on for each. Passes stay if
  /// they have a branch for each of the sequences, the first of them at once, and the others end: a
  /// pass for some would leave the others behind, and read the weights once more for them. A pass
  /// that has not begun stays with the entries that it was built for; if it is the next one, its
  /// whole windows must be bound.
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
  std::vector<Branch> branches_; ///< What each entry was built for, until the pass has begun.
  std::vector<Branch> ahead_;
  std::weak_ptr<PassOutcome> next_;
};

} // namespace paceline::execution
