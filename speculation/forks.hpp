// Forks of a sequence on the draft's lane: what is written for outcomes of the verification under
// way other than the one that the chain bets on.
#pragma once

#include "gpu/kv_pool.hpp"
#include "gpu/operations.hpp"
#include "speculation/frontier.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace paceline::speculation {

/// One outcome: the chain's tokens before `position`, then `token`. Its keys and values up to there
/// are the sequence's own; from the page of `position` on it has pages of its own, the first of
/// them a copy where that page begins with tokens before `position`. They go back to the pool when
/// the verdict is known: a fork that came true is fed once more, to the sequence's pages, in the
/// pass that goes on from it.
struct Fork {
  ChainRef chain;
  int position = 0;
  TokenId token = 0;
  double chance = 0; ///< That the outcome comes true and then all that is drawn is accepted.
  std::vector<gpu::PageRef> own;
  std::vector<std::uint32_t> pages;  ///< All of them, as kernels want them.
  std::optional<gpu::PageCopy> copy; ///< Before its first pass.
  int fed = 0;                       ///< The next position to feed.
  int weighed = 0;                   ///< The next position whose token `chance` does not count.

  /// `chance`, brought up to date: what its next token is worth.
  double worth(const sampling::Odds& odds);
};

/// The forks of one frontier. All state is the draft lane's alone.
class ForkSet {
public:
  /// A new chain: what was drafted for outcomes of the last verification is of no more use here.
  void clear();
  /// The chain was right before `length`: so were none of the forks there. Those behind are still
  /// of use.
  void settle(const Chain& chain, int length, const sampling::Odds& odds);
  /// Nothing more will be drawn for any of them.
  void end();
  /// The forks that the next pass advances by a token, at most as many as the frontier allows:
  /// those whose next token is worth most, that is, most likely to be judged. Opens new ones.
  /// fed: leading tokens that the sequence's pages hold; a fork begins behind them at the latest.
  /// context: positions that the draft can take.
  std::vector<Fork*> choose(const Frontier& at, int fed, int context, gpu::KvPool& pool);

private:
  struct Candidate;
  Fork* open(const Frontier& at, const Candidate& what, int context, gpu::KvPool& pool);

  std::vector<std::unique_ptr<Fork>> forks_;
  /// Guesses that have a fork, as bits of their ranks, by position from `first_` on.
  std::vector<std::uint32_t> opened_;
  int first_ = 0; ///< Position of the frontier.
};

} // namespace paceline::speculation
