// A batch is one target step: what the scheduler asks for, and the verdicts that come back.
#pragma once

#include "base/clock.hpp"
#include "paceline/event.hpp"
#include "scheduling/names.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace paceline::scheduling {

/// A feed says what the forward pass feeds of a sequence: committed tokens from `cached` up to the
/// entry's length, then the window, which is read from the chain when the lane gets there.
struct Feed {
  /// Committed tokens whose keys and values are in `pages` when the lane gets there.
  int cached = 0;
  gpu::PageTableRef pages; ///< The target's pages.
  bool fast = false;       ///< These rows go by the fast path, and nothing is judged.
  bool scores = false;     ///< The prompt tokens among the rows are scored.
  /// The batch in flight that has the chunk before this one: the last of those that `cached` counts
  /// on. The pass fails on a lane that has not had that batch first. 0: all of them have retired.
  std::uint64_t follows = 0;
  int again = 0; ///< Leading rows that a fork's pages had already, and these do not.
  /// Set if `pages` are a fork's from here on: the sequence's own are right before this position.
  std::optional<int> own{};
};

/// The rows that a pass may have beside a window, for other tokens than the window's: its paths
/// (execution/token_tree.hpp).
struct TreeRows {
  int rows = 0;     ///< Rows of all paths together.
  double least = 0; ///< The least chance, for a row, that it brings a token.
  sampling::Odds odds;
};

/// A round says what the verification judges of a sequence.
struct Round {
  bool judges = true; ///< False for a prefill chunk that is not the last.
  ChainRef chain;     ///< Null for plain decoding.
  int window = 0;     ///< Bound positions of the chain that are judged, from `length` on.
  bool whole = false; ///< These are the whole planned window: what comes after it is lookahead.
  bool judge_lookahead = false; ///< The token after the window is judged after a full acceptance.
  TreeRows tree{};
};

/// What is drafted behind the step is decided before its outcome is known: a hit goes on with the
/// round's chain or the fork of it that came true, a miss begins `chain`.
struct NextDraft {
  Epoch epoch;       ///< Epoch of the frontier behind the step.
  ChainRef chain;    ///< Null: nothing is drafted.
  int window = 0;    ///< K of the next window.
  int lookahead = 0; ///< Tokens drafted past it.
  Forking forking;
  bool reads_features = false; ///< The draft is a head on the target.
  gpu::PageTableRef pages;     ///< The draft's pages.
  CacheResidencyRef residency;
  Drafters drafters;
  speculation::EarlyEnd early_end;
};

/// The rows that the pass of a pre-enqueued batch, in a target of stages, may spend on outcomes of
/// the batches ahead other than full hits, for which there are forks. Which outcomes these are is
/// found out when the pass begins (execution/alternatives.hpp).
struct ForForks {
  int rows = 0;      ///< Rows of all forks together.
  int again_max = 0; ///< Tokens that a fork which came true may have fed once more.
};

/// One sequence's part of a batch: where it stands, and a group of fields for each who reads them.
struct BatchEntry {
  SequenceSpecRef spec;
  Epoch epoch; ///< Epoch of this step; the verdict carries it back.
  TokenLogView log;
  int length = 0; ///< Committed tokens to feed up to; less than all for a prefill chunk.
  /// The last tokens of `length` in a pre-enqueued batch, which the step before is to commit. The
  /// log may not have them when this step runs; the chain does.
  int assumed = 0;

  Feed feed;      ///< The forward pass reads it.
  Round round;    ///< The verification reads it.
  NextDraft next; ///< The draft reads it.
  ForForks forks; ///< The forward pass reads it.

  /// Committed tokens that are certain to be in the log.
  int logged() const { return length - assumed; }
};

struct Batch {
  std::uint64_t id = 0;
  /// Set in a pre-enqueued batch, which follows the batch of this id, whose verdicts are not known
  /// yet, and has its entries, each as a full hit would have it. Only the entries that then go on
  /// are run (Verdict::continuations). 0: the batch waits for nothing.
  std::uint64_t after = 0;
  /// Version of the actor handles that the scheduler goes by. Whoever has older ones waits for
  /// these, so that nothing is sent on to an actor that is gone.
  std::uint64_t handles = 0;
  std::vector<BatchEntry> entries;
  /// How long the lane may wait for a bound token before the draft counts as dead.
  base::Duration draft_timeout{};

  /// Keeps the entries for whose index `runs` says so, and drops the others.
  template <class Runs>
  void keep(Runs runs) {
    std::vector<BatchEntry> kept;
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (runs(i))
        kept.push_back(std::move(entries[i]));
    entries = std::move(kept);
  }
};

/// Says what of the tokens drafted past a window is of use after its verdict.
enum class Hit {
  none,  ///< Nothing of it is of use.
  chain, ///< The lookahead's first token was judged and accepted: the chain goes on.
  fork,  ///< A fork was drafted for just this outcome, and goes on.
};

/// A pre-enqueued batch that goes on after a verdict, with the outcome that came true: the judged
/// chain, or a fork of it. It is a value.
struct Continuation {
  std::uint64_t batch = 0;
  int length = 0; ///< Committed tokens that the batch assumes.
  int window = 0; ///< Tokens of the chain behind these that it judges.
  int own = 0;    ///< Feed::own where the outcome is a fork.
};

/// A verdict says what became of one entry. It is a value: it names what goes on (`hit`), and
/// whoever has the entry finds it by that (round.hpp).
struct Verdict {
  SequenceId sequence = 0;
  Epoch epoch;
  int cached = 0;             ///< Committed tokens now in the target's pages (before `tokens`).
  int window = 0;             ///< Tokens of the window that were there to be judged.
  int judged = 0;             ///< Accepted plus first rejection, lookahead and path included.
  int accepted = 0;           ///< Lookahead and path included.
  int path_judged = 0;        ///< Judged tokens of a path (execution/token_tree.hpp) among these.
  int path_accepted = 0;      ///< Accepted tokens among these.
  int looked_up = 0;          ///< Judged tokens that a look-up beside the model wrote.
  int looked_up_accepted = 0; ///< Accepted tokens among these.
  int formed = 0;             ///< Tokens that the answer's form wrote, judged or not.
  int formed_judged = 0;      ///< Judged tokens among these.
  int formed_accepted = 0;    ///< Accepted tokens among these.
  Hit hit = Hit::none;
  /// The pre-enqueued batches behind this one that run for the sequence, in their order; the first
  /// is certain to run. No other batch behind this one runs.
  std::vector<Continuation> continuations;
  bool had_lookahead = false;         ///< There was a bound lookahead to judge, or a fork.
  int guesses = 0;                    ///< Guesses that the draft had for a rejected token's place.
  int guess_rank = -1;                ///< Rank of the guess that came true; -1: none did.
  sampling::JudgedByMargin by_margin; ///< Tokens by margin, where the draft made guesses.
  /// Tokens of the window that should be accepted by how sure the draft was of each; none: it did
  /// not say.
  std::optional<double> expected;
  std::uint64_t forked = 0;    ///< Tokens drawn for outcomes that did not come true.
  int tree_rows = 0;           ///< Rows of paths beside the window.
  double tree_expected = 0;    ///< Tokens that these should bring.
  std::vector<TokenId> tokens; ///< Tokens to commit: accepted ones and the one that follows.
  /// The last of these, which a path brought: what was accepted of it, and the token that follows.
  int tree_tokens = 0;
  std::vector<TokenSource> sources;
  std::vector<TokenLogprob> logprobs;
  std::vector<TokenLogprob> prompt_logprobs; ///< Scores of the prompt tokens fed in this step.
  /// A bound token did not come in time. `tokens` end before it (there may be none), and the chain
  /// goes on: a later step judges the bound token.
  bool draft_late = false;
  bool inconsistent_draw = false; ///< A token was not the draw of the q shown.
  bool failed = false;            ///< The target's row was not a distribution.

  /// Says whether the batch behind this one runs for the sequence, and has begun by now.
  bool goes_on() const { return !continuations.empty(); }
  /// What became of the chain's own tokens.
  int chain_judged() const { return judged - path_judged; }
  int chain_accepted() const { return accepted - path_accepted; }
  /// What drafters did, without the form: acceptance and windows that steer are theirs.
  int drafters_window() const { return window - std::min(formed, window); }
  int drafters_judged() const { return judged - formed_judged; }
  int drafters_accepted() const { return accepted - formed_accepted; }
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
