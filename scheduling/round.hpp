// A round's end: what goes on behind a verdict. The one place that knows; the target's lane, which
// turns the chains over, and the scheduler, which hears of it later, both ask here.
#pragma once

#include "scheduling/batch.hpp"

namespace paceline::scheduling {

/// Where a sequence stands behind a verdict, and what is drafted from there.
struct Resolution {
  int length = 0; ///< Committed tokens.
  ChainRef chain; ///< The entry's own, a fork of it, the next one; null: nothing is drafted.
  int window = 0; ///< K of the chain's next window; 0 without a chain.
  /// How far it may be drafted, one past the last position.
  int window_end = 0;
  int limit = 0;
  /// Nobody waits for the sequence's next step: it was cancelled or evicted, or has said its last
  /// token. Known to the lane only (turn_over).
  bool over = false;
};

/// A pure function of the entry and the verdict's tokens and hit, and of the forks that are there:
/// without a chain, too, where whoever retired the sequence's chain meanwhile dropped the fork.
Resolution resolve(const BatchEntry& entry, const Verdict& verdict);

/// On the target's lane, once, when everything has been judged: finds out what goes on
/// (Verdict::hit; the lookahead's own outcome is there already) and turns the chains over to it.
/// Its reach changes (to nothing, where no more is to be drafted: what is bound stays); anything
/// else ends at once, so that the draft stops before its next token.
Resolution turn_over(const BatchEntry& entry, Verdict& verdict);

/// The entry of a pre-enqueued batch for an outcome other than the one that it was built for: a
/// fork of its chain. own: Feed::own. Its pages are the built one's: who feeds rows has others.
BatchEntry on_a_fork(const BatchEntry& built, ChainRef fork, int length, int window, int own);

/// Who wrote what was judged, and how sure was it; and where a rejected token's place was taken by
/// another, did the draft guess it?
void note_guesses(const BatchEntry& entry, Verdict& verdict);

} // namespace paceline::scheduling
