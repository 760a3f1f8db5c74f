// Where a sequence stands: all that is needed to draft from there.
#pragma once

#include "gpu/kv_pool.hpp"
#include "speculation/chain.hpp"
#include "speculation/sequence.hpp"

#include <atomic>
#include <memory>
#include <vector>

namespace paceline::speculation {

/// One time that a sequence spends in the KV caches, from grant to release. The draft's lane notes
/// how many leading committed tokens its pages hold, which is what the prefix cache may keep
/// afterwards.
struct CacheResidency {
  Epoch epoch;             ///< Of the grant.
  int cached_at_grant = 0; ///< Leading tokens that came from the prefix cache (draft's pages).
  /// Writer: the draft's lane. Readers: the scheduler, for what may be shared.
  std::atomic<int> cached{0};
  /// Committed tokens that the draft has read, whether its pages are of use to others or not: a
  /// sign of life. Writer: the draft's lane, or who stands for it. Reader: the scheduler.
  std::atomic<int> read{0};
  /// Writer: the scheduler, before it sends Forget, and when it dies. Reader: the draft's lane,
  /// which drops a frontier of this residency that arrives behind that.
  std::atomic<bool> over{false};
};
using CacheResidencyRef = std::shared_ptr<CacheResidency>;

/// What the draft may spend on outcomes of the verification under way other than its chain's own.
struct Forking {
  int rows = 0;   ///< Forks that a pass advances, for this sequence; 0: none.
  int window = 0; ///< Tokens of each.
  sampling::Odds odds;
  int beyond = 0;      ///< Positions behind the window's outcomes that are judged soon: in flight.
  bool learns = false; ///< Guesses are wanted, without forks: to see how good they are.
  int most = limits::forks_max; ///< Forks that there may be of a frontier.
};

/// Who drafts a sequence where a look-up shares the lane of a model. Chosen from the past and the
/// clock: never from what is drafted.
struct Drafters {
  bool model = true;
  bool lookup = false;
  /// The look-up goes first, with tokens that come true with this chance or a better one.
  double chance = 0;
};

/// What the target's pages hold for a draft that is a head on it (models::with_taps). Features are
/// right where keys and values are: of leading committed positions. Behind them may be those of
/// tokens that were rejected.
struct TargetFeatures {
  gpu::PageTableRef pages; ///< The target's; null: the draft is no head.
  int count = 0;           ///< Leading positions whose features are there.
};

/// (sequence, committed length, epoch) with all that is needed to draft from there: the draft
/// keeps nothing that it could not rebuild from one of these.
struct Frontier {
  SequenceSpecRef spec;
  Epoch epoch;
  TokenLogView log;
  int log_length = 0;          ///< Committed tokens to read from `log` ...
  std::vector<TokenId> tokens; ///< ... and those that follow them (the log may not have them yet).
  ChainRef chain;              ///< Already begun at `length()`, or kept after a hit.
  gpu::PageTableRef pages;     ///< The draft's.
  CacheResidencyRef residency;
  Forking forking;
  TargetFeatures features{};
  Drafters drafters{};

  int length() const { return log_length + int(tokens.size()); }
  /// The sequence's token at `position`: committed, or of its chain.
  TokenId token_at(int position) const {
    if (position < log_length)
      return log->first(log_length)[std::size_t(position)];
    if (position < length())
      return tokens[std::size_t(position - log_length)];
    return chain->token(position);
  }
};

/// Several at once: the verdicts of one target step.
struct Frontiers {
  std::vector<Frontier> sequences;
};

/// The way to the draft's lane, lent by the draft actor: what a verification has found reaches the
/// draft from the thread that knows it first, without waking an actor in between. Threads: any.
class DraftInbox {
public:
  virtual ~DraftInbox() = default;
  /// A hint: it is lost when the draft is gone.
  virtual void post(const Frontiers& frontiers) = 0;
};

} // namespace paceline::speculation
