// Bounds of the scheduling layer (docs/limits.md lists all layers').
#pragma once

#include <chrono>
#include <cstddef>

namespace paceline::scheduling::limits {

using namespace std::chrono_literals;

/// The prefix cache keeps so many pages that no sequence uses, as far as they are free otherwise.
/// Entries go least recently used first, when a sequence wants their pages.
inline constexpr std::size_t prefix_entries_max = 1u << 20;
/// Pages are asked for this many tokens ahead of need, so that growing is rare; and given back when
/// this many tokens lie behind what the target's attention sees.
inline constexpr int tokens_ahead = 64;

/// A step of priority is worth so much waiting: a request that is n steps behind is overtaken for
/// at most n times as long.
inline constexpr std::chrono::nanoseconds priority_step = 10s;
/// By deadlines, a request without one, or with a later one, counts as due so long after it came.
inline constexpr std::chrono::nanoseconds due_without_deadline = 60s;

/// Steps are cut to multiples of so many rows, which is what a tile of the kernels takes.
inline constexpr int row_tile = 16;

/// Steps are planned to take so much of an objective for the time between tokens.
inline constexpr double objective_used = 0.95;
/// Without an objective, and as long as no request waits for a place, prompts in a step of streams
/// make it at most so many times as long.
inline constexpr double prompts_lengthen = 2.5;

/// A waiting sequence asks so many times, with such pauses, for pages that it was refused when
/// nothing that runs gives any back; then its request fails.
inline constexpr int reservation_tries_max = 1000;
inline constexpr std::chrono::nanoseconds reservation_pause = 10ms;

/// Nobody is preempted for so many passes of the draft, in which forks that are over may hold
/// pages: one that is under way, one that stands ready behind it, and one for the news to come.
inline constexpr int passes_to_let_go = 3;

/// The scheduler goes on without a window that took this many of the draft's steps more than it has
/// tokens, but never sooner or later than the times beside it say. Sooner than threads are put
/// aside on a busy machine would be no sign of a stall.
inline constexpr int draft_timeout_steps = 20;
inline constexpr std::chrono::nanoseconds draft_timeout_min = 50ms;
inline constexpr std::chrono::nanoseconds draft_timeout_max = 10s;
/// A draft that has not shown yet how long its steps take is waited for so long.
inline constexpr std::chrono::nanoseconds first_draft_timeout = 1s;

/// After it was late, nobody waits for the draft for this long, doubled each time up to the second.
inline constexpr std::chrono::nanoseconds draft_back_off_min = 50ms;
inline constexpr std::chrono::nanoseconds draft_back_off_max = 5s;
/// After a bound token that was late has held a sequence up, nothing is drafted for as long as that
/// took, and for at most so many times as long where it happens again and again.
inline constexpr int draft_pause_factor_max = 16;

/// The next batch is enqueued behind this one when all of this one is accepted at least this
/// probably. A wasted one costs two messages, of which neither lane hears.
inline constexpr double pre_enqueue_chance_min = 0.1;

/// In a target of stages a pass has as many rows for forks of the passes ahead as make it longer by
/// at most this, times the chance of a rejection, and at most so many.
inline constexpr double forks_lengthen = 0.25;
inline constexpr int fork_rows_max = 48;
/// The prefix cache leaves an eighth of all pages free for them, as far as it has taken them, and
/// never more than this.
inline constexpr std::size_t fork_pages_spare_max = 32;
/// At most so many tokens are fed once more behind a fork that came true. A sequence that would
/// have more is not in the pass: its window enters the first stage when the verdict is there.
inline constexpr int fed_again_max = 64;

/// A sequence's own acceptance is taken over so many judged positions, begins with so many of the
/// engine's, and keeps this part of its weight in each round in which nothing was judged.
inline constexpr double acceptance_memory = 100;
inline constexpr double acceptance_prior = 16;
inline constexpr double acceptance_fades = 0.98;
/// One in so many sequences drafts where windows do not pay, to see whether they do again.
inline constexpr int scouts_one_in = 16;

/// A step that takes this many times as long as steps did means that its lane stands still (and it
/// has to take FaultOptions::stall_patience at least): the lane is abandoned.
inline constexpr int stall_steps = 50;
/// A step like none that was measured means so when it takes longer than this.
inline constexpr std::chrono::nanoseconds first_step_timeout = 10min;

/// The deadlines of open requests are looked at no later than after this: alarms that are no longer
/// needed are those of the last moments.
inline constexpr std::chrono::nanoseconds deadline_look = 1s;

} // namespace paceline::scheduling::limits
