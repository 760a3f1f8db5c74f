// Bounds of the actors layer (docs/limits.md lists all layers').
#pragma once

#include <chrono>
#include <cstddef>

namespace paceline::actors::limits {

using namespace std::chrono_literals;

/// Most requests an engine may be asked to queue (EngineOptions::max_waiting is the bound in use;
/// a request beyond it is refused as overloaded, with a hint when to retry).
inline constexpr int max_waiting_max = 65'536;
/// Most sequences in one batch (EngineOptions::max_num_seqs).
inline constexpr int max_num_seqs_max = 256;
/// Most prompt tokens in one step (EngineOptions::prefill_chunk): a GPU's grid ends at 65,535 rows.
inline constexpr int prefill_chunk_max = 32'768;
/// Longest prompt text accepted; longer ones are refused before they are tokenized.
inline constexpr std::size_t prompt_bytes_max = 64u << 20;
/// Largest Sampling::choice; noise is keyed by 29 bits of it.
inline constexpr int choice_max = 65'535;
/// Pages the prefix cache may keep that no sequence uses: all that are free otherwise. Entries go
/// least recently used first, when a sequence wants their pages.
inline constexpr std::size_t prefix_entries_max = 1u << 20;
/// Pages are asked for this many tokens ahead of need, so that growing is rare; and given back when
/// this many tokens lie behind what the target's attention sees.
inline constexpr int tokens_ahead = 64;
/// Forks of one frontier, and rows that all forks of a pass may have together.
inline constexpr int forks_max = 64;
inline constexpr int fork_rows_max = 64;
/// Pages of the draft's pool beyond the target's, for each row of forks. Forks take what no
/// sequence has; where nothing is left there are fewer of them.
inline constexpr int pages_per_fork_row = 3;
/// Prompt tokens the draft catches up on in one pass, over all sequences.
inline constexpr int draft_prefill_chunk = 256;

/// The scheduler goes on without a window that took this many of the draft's steps more than it has
/// tokens ...
inline constexpr int draft_patience_steps = 20;
/// ... but never sooner or later than this. Sooner than threads are put aside on a busy machine
/// would be no sign of a stall.
inline constexpr std::chrono::nanoseconds draft_patience_min = 50ms;
inline constexpr std::chrono::nanoseconds draft_patience_max = 10s;

/// After it was late, nobody waits for the draft for this long, doubled each time up to the second.
inline constexpr std::chrono::nanoseconds distrust_pause_min = 50ms;
inline constexpr std::chrono::nanoseconds distrust_pause_max = 5s;

/// The next batch is armed while this one runs when all of this one is accepted at least this
/// probably. A wasted one costs two messages, of which neither lane hears.
inline constexpr double armed_chance_min = 0.1;

/// A step that takes this many times as long as steps did means that its lane stands still (and it
/// has to take FaultOptions::stall_patience at least): the lane is abandoned.
inline constexpr int stall_steps = 50;
/// The same for a step like none that was measured.
inline constexpr std::chrono::nanoseconds first_step_patience = 10min;

/// Pages that a waiting sequence was refused: how often and how soon it asks again when nothing
/// that runs gives any back, before its request fails.
inline constexpr int reservation_tries_max = 1000;
inline constexpr std::chrono::nanoseconds reservation_pause = 10ms;

/// Largest FaultOptions::restarts_max and rebuilds_max, and longest of its times.
inline constexpr int restarts_max_max = 1'000'000;
inline constexpr std::chrono::milliseconds fault_time_max = 24h;

} // namespace paceline::actors::limits
