// Bounds of the speculation layer (docs/limits.md lists all layers').
#pragma once

#include "sampling/limits.hpp"

#include <cstddef>

namespace paceline::speculation::limits {

/// A chain remembers so many positions. A draft may run at most K + (K + 1) tokens past the
/// frontier, and after a hit as far past the next one before the last window has been read.
inline constexpr int chain_positions = 4 * (sampling::limits::window_max + 1);

/// So many bits of a draw's attempt number hold the frontier's length; the others number forks.
/// Contexts are shorter (models/limits.hpp).
inline constexpr int frontier_bits = 24;

/// A frontier has at most so many forks, and a pass so many rows of all forks together, whatever
/// they cost.
inline constexpr int forks_max = 64;
inline constexpr int fork_rows_max = 64;
/// A pass of the target has at most so many rows beside a sequence's window.
inline constexpr int tree_rows_max = 48;
/// The draft's pool has so many pages more than the target's for each row of forks. Forks take what
/// no sequence has; where nothing is left there are fewer of them.
inline constexpr int pages_per_fork_row = 3;

/// A sequence holds rows of q of at most so many windows of K + 1: one that is judged, the
/// lookahead behind it, and as much of a chain that was given up and not let go of yet. Where there
/// are no more, a chain ends, and the next one begins behind its verdict.
inline constexpr std::size_t windows_held = 3;

/// The draft catches up on so many prompt tokens in one pass, over all sequences.
inline constexpr int draft_prefill_chunk = 256;

/// A model may be so many tokens behind where a look-up drafts in its place: it reads them when it
/// is its turn, in one pass.
inline constexpr int reading_lag = 16;

/// A draft model with a vocabulary of its own has so many slots for each of the target's tokens, on
/// average: a text that takes more of its tokens goes on without it.
inline constexpr int draft_slots_per_token = 2;

/// A look-up looks at so many tokens behind a match; those that came there first are left out.
inline constexpr std::size_t lookup_followers = 64;
/// A look-up proposes a token only when that and all before it come true with this chance or a
/// better one: a row of a verification is not free.
inline constexpr double lookup_chance_min = 0.2;

/// The form of an answer goes before a look-up that drafts alone, or a Drafter, with tokens that
/// come true with this chance or a better one; where these know no more, it takes any chance that a
/// look-up takes.
inline constexpr double form_chance_first = 0.75;
/// Where neither a look-up nor a Drafter drafts, all forms of an engine together hold so many rows
/// of q; where there are no more, a window ends. Only `rejection` wants any.
inline constexpr std::size_t form_q_rows = 128;

} // namespace paceline::speculation::limits
