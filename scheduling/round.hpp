// Decides what goes on behind a verdict, in this place only. The target's lane, which turns the
// chains over, and the scheduler, which hears of it later, both ask here.
#pragma once

#include "scheduling/batch.hpp"

namespace paceline::scheduling {

/// A resolution says where a sequence stands behind a verdict, and what is drafted from there.
struct Resolution {
  int length = 0; ///< Committed tokens.
  ChainRef chain; ///< The entry's own, a fork of it, the next one; null: nothing is drafted.
  int window = 0; ///< K of the chain's next window; 0 without a chain.
  /// How far the window may be drafted, and the whole lookahead; both one past the last position.
  int window_end = 0;
  int limit = 0;
  /// Nobody waits for the sequence's next step: it was cancelled or evicted, or has said its last
  /// token. Known to the lane only (turn_over).
  bool over = false;
};

/// Resolves a verdict, as a pure function of the entry, the verdict's tokens and hit, and the forks
/// that are there. The result also lacks a chain where whoever retired the sequence's chain
/// meanwhile dropped the fork.
Resolution resolve(const BatchEntry& entry, const Verdict& verdict);

/// Is called on the target's lane, once, when everything has been judged. Finds out what goes on
/// (Verdict::hit; the lookahead's own outcome is there already) and turns the chains over to it.
/// The chain that goes on has a new reach (none, where no more is to be drafted: what is bound
/// stays); all other chains end at once, so that the draft stops before its next token.
Resolution turn_over(const BatchEntry& entry, Verdict& verdict);

/// Returns the entry of a pre-enqueued batch for another outcome than the one that it was built
/// for: a fork of its chain. own: Feed::own. The pages stay the built entry's; whoever feeds rows
/// has others.
BatchEntry on_a_fork(const BatchEntry& built, ChainRef fork, int length, int window, int own);

/// Notes who wrote what was judged, how sure the draft was, and whether it guessed the token that
/// took a rejected one's place.
void note_guesses(const BatchEntry& entry, Verdict& verdict);

} // namespace paceline::scheduling
