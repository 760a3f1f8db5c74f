// Forks of a sequence on the draft's lane. They are written for outcomes of the verification under
// way other than the one that the chain bets on.
#pragma once

#include "gpu/kv_pool.hpp"
#include "gpu/operations.hpp"
#include "speculation/frontier.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace paceline::speculation {

/// A fork is drafted for one outcome: the chain's tokens before `position`, then `token`. Its keys
/// and values before that are the sequence's own; from the page of `position` on the fork has pages
/// of its own, the first of which is a copy where that page begins with tokens before `position`.
/// These pages return to the pool when the verdict is known: a fork that came true is fed once
/// more, to the sequence's pages, in the pass that goes on from it.
struct Fork {
  ChainRef chain;
  int position = 0;
  TokenId token = 0;
  double chance = 0; ///< Chance that the outcome comes true and all drawn tokens are accepted.
  std::vector<gpu::PageRef> own;
  std::vector<std::uint32_t> pages;  ///< All its pages, as kernels want them.
  std::optional<gpu::PageCopy> copy; ///< Copy to make before the first pass.
  int fed = 0;                       ///< The next position to feed.
  int weighed = 0;                   ///< The next position whose token `chance` does not count.

  /// Brings `chance` up to date and returns it: it is what the fork's next token is worth.
  double worth(const sampling::Odds& odds);
};

/// The forks of one frontier. Only the draft's lane uses them.
class ForkSet {
public:
  /// Forgets all forks, since the chain is a new one and outcomes of the last verification are
  /// past.
  void clear();
  /// Notes that the chain was right before `length`, so that no fork at a position before it came
  /// true. Forks behind that are still of use.
  void settle(const Chain& chain, int length, const sampling::Odds& odds);
  /// Ends all forks: nothing more will be drawn for any of them.
  void end();
  /// Returns the forks that the next pass advances by a token, at most as many as the frontier
  /// allows: those whose next token is worth most, that is, most likely to be judged. It opens new
  /// forks that are among these. fed: leading tokens that the sequence's pages hold; a fork begins
  /// behind them at the latest. context: positions that the draft can take.
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
