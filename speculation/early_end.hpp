// Decides where a window ends before its last position.
#pragma once

#include "sampling/guess.hpp"

namespace paceline::speculation {

class Chain;

/// A window ends early as soon as the chance that all of its tokens so far and the next one are
/// accepted is below `least`. The chance comes from how sure the draft was of the tokens before,
/// and never from the next token itself, which keeps `rejection` exact (docs/theory.md).
struct EarlyEnd {
  double least = 0; ///< 0: the window ends at its last position.
  sampling::Odds odds;

  /// Says whether the window that begins at `start` of the chain ends before `position`. Tokens
  /// that are not drawn yet, and those that the draft made no guesses for, are like all others.
  /// Threads: the draft's lane.
  bool is_before(int position, const Chain& chain, int start) const;
};

} // namespace paceline::speculation
