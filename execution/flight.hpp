// Passes of one sequence that are under way in the stages of a target, one behind the other, each
// as if all of those ahead of it were accepted; and what is left of them behind a verdict.
#pragma once

#include "gpu/kv_pool.hpp"
#include "scheduling/batch.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace paceline::execution {

struct ForwardPass;

/// One outcome of the passes ahead that a pass has rows for.
struct Standing {
  speculation::ChainRef chain; ///< What goes on then.
  int length = 0;              ///< Committed tokens then,
  int window = 0;              ///< and the chain's behind them that are judged.
  gpu::PageTableRef pages;     ///< That its rows are fed to.
  std::optional<int> own;      ///< scheduling::Feed::own
  double chance = 1;           ///< Of a fork: that its outcome comes true.

  /// Where the next pass stands if all is accepted.
  int end() const { return length + window + 1; }
};

/// What becomes of one pass. Threads: any; the first stage's lane says what it stands for, the
/// verification of the one ahead which of that came true.
class Flight {
public:
  enum class Fate {
    open, ///< Nobody has judged the pass ahead.
    goes_on,
    ends, ///< It is not run any further.
  };

  /// A pass that waits for nothing goes on; a pre-enqueued one stands behind another.
  static void line_up(ForwardPass& ahead, const std::shared_ptr<ForwardPass>& behind);

  Fate fate() const;
  /// Of a pass that goes on: the number of the standing that came true.
  std::size_t came_true() const;
  /// Unless it is known already that it goes on.
  void end();
  /// Once, when the rows have been read: what they are for, in their order, and what those ahead
  /// stand for. False: it ended meanwhile.
  bool stand(std::vector<Standing> rows, std::vector<Standing> ahead);
  /// What this one and those ahead stand for, as far as it may come true.
  std::vector<Standing> standings() const;

  /// The verification of `judged` has found that `chain` goes on from `length` (null: nothing
  /// does). Of the passes behind those that have a part of it stay, the first of them at once, and
  /// the others end. A pass that has not begun stays as what it was built for, if it is the next
  /// one only with its whole window bound. Returns those that stay.
  static std::vector<scheduling::Onward> go_on(Flight& judged, const speculation::ChainRef& chain,
                                               int length);

private:
  std::shared_ptr<ForwardPass> close();
  std::shared_ptr<ForwardPass> behind() const;
  std::optional<Standing> follow(const speculation::ChainRef& chain, int length, bool next);

  mutable std::mutex mutex_;
  Fate fate_ = Fate::goes_on;
  std::size_t came_true_ = 0;
  bool read_ = false;
  bool judged_ = false;
  std::vector<Standing> rows_; ///< Before it was read: what it was built for.
  std::vector<Standing> ahead_;
  std::weak_ptr<ForwardPass> behind_;
};

} // namespace paceline::execution
