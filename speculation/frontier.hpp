// A frontier says where a sequence stands, with all that is needed to draft from there.
#pragma once

#include "gpu/kv_pool.hpp"
#include "speculation/chain.hpp"
#include "speculation/early_end.hpp"
#include "speculation/sequence.hpp"

#include <atomic>
#include <memory>
#include <tuple>
#include <vector>

namespace paceline::speculation {

/// A residency is one stay of a sequence in the KV caches, from grant to release. The draft's lane
/// notes how many leading committed tokens its pages hold, which is what the prefix cache may keep
/// afterwards.
struct CacheResidency {
  Epoch epoch;             ///< Epoch of the grant.
  int cached_at_grant = 0; ///< Leading tokens that came from the prefix cache (draft's pages).
  /// Leading committed tokens in the draft's pages that may be shared. Writer: the draft's lane.
  /// Reader: the scheduler.
  std::atomic<int> cached{0};
  /// Committed tokens that the draft has read, whether or not its pages are of use to others; a
  /// sign of life. Writer: the draft's lane, or whoever stands in for it. Reader: the scheduler.
  std::atomic<int> read{0};
  /// Set when the residency has ended. Writer: the scheduler, before it sends Forget, and when it
  /// dies. Reader: the draft's lane, which drops a frontier of this residency that arrives
  /// afterwards.
  std::atomic<bool> over{false};
};
using CacheResidencyRef = std::shared_ptr<CacheResidency>;

/// A budget for outcomes of the verification under way, or of the next one, other than the one that
/// the chain bets on.
struct Forking {
  int rows = 0;   ///< Forks that a pass advances, for this sequence; 0: none.
  int window = 0; ///< Tokens of each fork.
  sampling::Odds odds;
  int beyond = 0;               ///< Positions in flight behind the window's outcomes, judged soon.
  bool learns = false;          ///< Guesses are wanted without forks, to see how good they are.
  int most = limits::forks_max; ///< Most forks that a frontier may have.
  /// Forks are written beside the window, in its passes and no further than it, since they are
  /// judged in the same step (execution/token_tree.hpp); else behind it, while it is judged.
  bool beside = false;
  double least = 0; ///< Least chance of a fork's next token.
};

/// The drafters of a sequence. They are chosen from the past and the clock, never from what is
/// drafted.
struct Drafters {
  bool model = true;   ///< The model, or whoever drafts alone in its place.
  bool lookup = false; ///< A look-up that shares the lane of a model.
  /// The look-up and the form go first with tokens that come true with this chance or a better one.
  double chance = 0;
  /// The form of the answer goes first with what it knows, and lengthens a window up to so many
  /// tokens; 0: it does not draft.
  int form_window = 0;

  bool form() const { return form_window > 0; }
};

/// The features in the target's pages, for a draft that is a head on the target
/// (models::with_taps). Like keys and values they are right for leading committed positions; behind
/// these there may be features of tokens that were rejected.
struct TargetFeatures {
  gpu::PageTableRef pages; ///< The target's pages; null: the draft is no head.
  int count = 0;           ///< Leading positions whose features are there.
  /// Features from position `path_from` on lie in these pages, where the last tokens are those of a
  /// token tree's path that came true, which the target's own pages have when it has been fed once
  /// more. Null: there are none, or they have been read.
  gpu::PageTableRef path{};
  int path_from = 0;
};

/// A frontier is (sequence, committed length, epoch) with all that is needed to draft from there:
/// the draft keeps nothing that it could not rebuild from one of these.
struct Frontier {
  SequenceSpecRef spec;
  Epoch epoch;
  TokenLogView log;
  int log_length = 0;          ///< Committed tokens to read from `log`.
  std::vector<TokenId> tokens; ///< Committed tokens after those; the log may not have them yet.
  ChainRef chain;              ///< Begun at `length()` already, or kept after a hit.
  gpu::PageTableRef pages;     ///< The draft's pages.
  CacheResidencyRef residency;
  Forking forking;
  TargetFeatures features{};
  Drafters drafters{};
  EarlyEnd early_end{};

  int length() const { return log_length + int(tokens.size()); }
  /// Returns true if its residency has ended: nobody goes on from it.
  bool is_over() const { return residency->over.load(std::memory_order_acquire); }
  /// Returns true if it is not older than `known`, which may be empty.
  bool supersedes(const Frontier& known) const {
    return !known.residency ||
           std::tie(known.residency->epoch, known.epoch) <= std::tie(residency->epoch, epoch);
  }
  /// Returns the sequence's token at `position`, which is committed or its chain's.
  TokenId token_at(int position) const {
    if (position < log_length)
      return log->first(log_length)[std::size_t(position)];
    if (position < length())
      return tokens[std::size_t(position - log_length)];
    return chain->token(position);
  }
};

/// Several frontiers at once, from the verdicts of one target step.
struct Frontiers {
  std::vector<Frontier> sequences;
};

/// The way to the draft's lane, lent by the draft actor: what a verification has found reaches the
/// draft from the thread that knows it first, without waking an actor in between. Threads: any.
class DraftInbox {
public:
  virtual ~DraftInbox() = default;
  /// Posts a hint, which is lost when the draft is gone.
  virtual void post(const Frontiers& frontiers) = 0;
};

} // namespace paceline::speculation
