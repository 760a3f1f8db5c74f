// One target step: what the scheduler asks for, and the verdicts that come back.
#pragma once

#include "base/clock.hpp"
#include "paceline/event.hpp"
#include "scheduling/names.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace paceline::scheduling {

/// What the forward pass feeds of a sequence: committed tokens from `cached` up to the entry's
/// length, then the window, which is read from the chain when the lane gets there.
struct Feed {
  /// Committed tokens whose keys and values are in `pages` when the lane gets there.
  int cached = 0;
  gpu::PageTableRef pages; ///< The target's.
  bool fast = false;       ///< These rows go by the fast path; then nothing is judged.
  bool scores = false;     ///< The prompt tokens among the rows are scored.
  /// The batch in flight that has the chunk before this one: the last of those that `cached` counts
  /// on. The pass fails where a lane has not had that one first. 0: all of them have retired.
  std::uint64_t follows = 0;
  int again = 0; ///< Leading rows that a fork's pages have had already, and not these.
  /// `pages` are a fork's from some position on: the sequence's own are right before this one.
  std::optional<int> own{};
};

/// What the verification judges of a sequence.
struct Round {
  bool judges = true; ///< False: a prefill chunk that is not the last.
  ChainRef chain;     ///< Null: plain decoding.
  int window = 0;     ///< Bound positions of the chain that are judged, from `length` on.
  bool whole = false; ///< They are the whole planned window: what comes after it is lookahead.
  bool judge_lookahead = false; ///< After a full acceptance, judge the token after the window.
};

/// What is drafted behind the step, decided before its outcome is known: a hit goes on with the
/// round's chain or the fork of it that came true, a miss begins `chain`.
struct NextDraft {
  Epoch epoch;       ///< Of the frontier behind the step.
  ChainRef chain;    ///< Null: nothing is drafted.
  int window = 0;    ///< K of the next window, and ...
  int lookahead = 0; ///< ... tokens past it.
  Forking forking;
  bool reads_features = false; ///< The draft is a head on the target.
  gpu::PageTableRef pages;     ///< The draft's.
  CacheResidencyRef residency;
  Drafters drafters;
};

/// Of a pre-enqueued batch in a target of stages: what its pass may spend on outcomes of those
/// ahead of it other than full hits, for which there are forks. Which, is found out when the pass
/// begins (execution/alternatives.hpp).
struct ForForks {
  int rows = 0;      ///< All together.
  int again_max = 0; ///< Tokens that a fork which came true may have fed once more.
};

/// One sequence's part of a batch: where it stands, and a group of fields for each who reads them.
struct BatchEntry {
  SequenceSpecRef spec;
  Epoch epoch; ///< Of this step; the verdict carries it back.
  TokenLogView log;
  int length = 0; ///< Committed tokens to feed up to; less than all for a prefill chunk.
  /// Of a pre-enqueued batch: the last tokens of `length`, which the step before is to commit. The
  /// log may not have them when this step runs; the chain does.
  int assumed = 0;

  Feed feed;      ///< For the forward pass.
  Round round;    ///< For the verification.
  NextDraft next; ///< For the draft.
  ForForks forks; ///< For the forward pass.

  /// Committed tokens that are certain to be in the log.
  int logged() const { return length - assumed; }
};

struct Batch {
  std::uint64_t id = 0;
  /// A pre-enqueued batch: it follows the one of this id, whose verdicts are not known yet, and has
  /// its entries, each as a full hit would have it. Only those that then go on are run
  /// (Verdict::continuations). 0: it waits for nothing.
  std::uint64_t after = 0;
  /// Of the actor handles that the scheduler goes by: who has older ones waits for these, so that
  /// nothing is sent on to an actor that is gone.
  std::uint64_t handles = 0;
  std::vector<BatchEntry> entries;
  /// How long the lane may wait for a bound token before the draft counts as dead.
  base::Duration draft_timeout{};

  /// Leaves the entries for whose index `runs` says so.
  template <class Runs>
  void keep(Runs runs) {
    std::vector<BatchEntry> kept;
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (runs(i))
        kept.push_back(std::move(entries[i]));
    entries = std::move(kept);
  }
};

/// What a verdict made of what was drafted past its window.
enum class Hit {
  none,  ///< Nothing of it is of use.
  chain, ///< The lookahead's first token was judged and accepted: the chain goes on.
  fork,  ///< A fork was drafted for just this outcome, and goes on.
};

/// A pre-enqueued batch that goes on, as what came true has it: the judged chain, or a fork of it.
/// A value.
struct Continuation {
  std::uint64_t batch = 0;
  int length = 0; ///< Committed tokens that it assumes,
  int window = 0; ///< and the chain's tokens behind them that it judges.
  int own = 0;    ///< Feed::own, of a fork.
};

/// What became of one entry. A value: it names what goes on (`hit`), and whoever has the entry
/// finds it by that (round.hpp).
struct Verdict {
  SequenceId sequence = 0;
  Epoch epoch;
  int cached = 0;             ///< Committed tokens now in the target's pages (before `tokens`).
  int window = 0;             ///< Tokens of the window that were there to be judged.
  int judged = 0;             ///< Accepted plus first rejection, lookahead included.
  int accepted = 0;           ///< Lookahead included.
  int looked_up = 0;          ///< Judged, of what a look-up beside the model wrote,
  int looked_up_accepted = 0; ///< and accepted.
  Hit hit = Hit::none;
  /// The pre-enqueued batches behind this one that run for it, in their order; the first of them is
  /// certain to. No other one behind this runs.
  std::vector<Continuation> continuations;
  bool had_lookahead = false; ///< There was a bound lookahead to judge, or a fork.
  int guesses = 0;            ///< The draft's for the token that took a drafted one's place,
  int guess_rank = -1;        ///< and which of them it was; -1: none.
  sampling::JudgedByMargin by_margin; ///< As far as the draft made guesses.
  std::uint64_t forked = 0;           ///< Tokens drawn for outcomes that did not come true.
  std::vector<TokenId> tokens;        ///< To commit: accepted ones and the one that follows.
  std::vector<TokenSource> sources;
  std::vector<TokenLogprob> logprobs;
  std::vector<TokenLogprob> prompt_logprobs; ///< Of the prompt tokens fed in this step.
  /// A bound token did not come in time. `tokens` end before it (there may be none), and the chain
  /// goes on: it is judged by a later step.
  bool draft_late = false;
  bool inconsistent_draw = false; ///< A token was not the draw of the q shown.
  bool failed = false;            ///< The target's row was not a distribution.

  /// The batch behind this one runs for it, and has begun by now.
  bool goes_on() const { return !continuations.empty(); }
};

struct Verdicts {
  std::uint64_t batch = 0;
  std::vector<Verdict> sequences;
  int rows = 0;
  base::TimePoint begin;      ///< Forward began on the lane.
  base::TimePoint end;        ///< Verification ended.
  base::Duration busy{};      ///< Lane time, without waiting for the draft.
  std::optional<Error> error; ///< The step failed; no sequence has a verdict.
};

} // namespace paceline::scheduling
