// One target step: what the scheduler asks for, and the verdicts that come back.
#pragma once

#include "gpu/lane.hpp"
#include "messages/draft.hpp"
#include "models/model.hpp"
#include "paceline/event.hpp"

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

namespace paceline::messages {

/// One sequence's part of a batch. Rows fed: committed tokens from `cached` up to `length`, then
/// the window, which is read from the chain when the lane gets there.
struct BatchEntry {
  SequenceSpecRef spec;
  Epoch epoch; ///< Of this step; the verdict carries it back.
  TokenLogView log;
  int cached = 0;      ///< Committed tokens whose keys and values are in the target's pages.
  int length = 0;      ///< Committed tokens to feed up to; less than all for a prefill chunk.
  bool judges = true;  ///< False: a prefill chunk that is not the last.
  bool fast = false;   ///< These rows go by the fast path; then `judges` is false.
  bool scores = false; ///< The prompt tokens among the rows are scored.
  /// Of an armed batch: the last tokens of `length`, which the step before is to commit. The log
  /// may not have them when this step runs; the chain does.
  int assumed = 0;
  gpu::PageTableRef pages;

  ChainRef chain;     ///< Null: plain decoding.
  int window = 0;     ///< Bound positions of the chain that are judged (from `length` on).
  bool whole = false; ///< They are the whole planned window: what comes after it is lookahead.

  /// What is drafted after this step: a hit goes on with `chain` or the fork of it that came true,
  /// a miss begins `next_chain` (null: nothing is drafted). Their reach past the new frontier, in
  /// tokens, and what may be spent on forks there.
  Epoch next_epoch; ///< Of that frontier.
  ChainRef next_chain;
  int next_window = 0;
  int next_lookahead = 0;
  Forking next_forking;
  bool judge_lookahead = false; ///< After a full acceptance, judge the token after the window.
  gpu::PageTableRef draft_pages;
  ResidenceRef residence;

  /// Committed tokens that are certain to be in the log.
  int logged() const { return length - assumed; }
};

struct Batch {
  std::uint64_t id = 0;
  /// An armed batch: it follows the one of this id, whose verdicts are not known yet, and has its
  /// entries, each as a full hit would have it. Only those that then go on are run
  /// (Verdict::goes_on). 0: it waits for nothing.
  std::uint64_t after = 0;
  /// Of the handles that the scheduler goes by: who has older ones waits for these, so that nothing
  /// is sent on to an actor that is gone.
  std::uint64_t wiring = 0;
  std::vector<BatchEntry> entries;
  /// How long the lane may wait for a bound token before the draft counts as dead.
  base::Duration patience{};

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

/// A forward pass on the target's lane and the handle of its logits. Threads: written by the pass,
/// read by the verification that is enqueued behind it on the same lane.
struct ForwardPass {
  Batch batch;
  std::shared_ptr<models::Workspace> workspace; ///< logits(): the rows of all entries, in order.
  struct Rows {
    std::vector<TokenId> tokens; ///< Fed: committed ones, then the window.
    std::vector<TokenId> prefix; ///< The entry's `assumed` tokens.
    int window = 0;              ///< Window tokens among them: those that were there in time.
    int first_logit_row = 0;
    int logit_rows = 0;
    bool goes_on = false; ///< Verdict::goes_on, for the armed step behind this one.
  };
  std::vector<Rows> rows; ///< One per entry.
  gpu::Retirement retirement;

  /// Of an armed batch: the pass before. The lane lets go of it when it gets here, and leaves the
  /// entries that run.
  std::shared_ptr<ForwardPass> before;
  /// The sampler says so when the armed batch behind this one is on the lane with all its steps.
  std::atomic<bool> followed{false};
};

/// Target to sampler: a pass that was enqueued, and leave to enqueue verification behind it.
struct Logits {
  std::shared_ptr<ForwardPass> pass;
  std::shared_ptr<gpu::Lane> lane;
  /// An armed pass, still to be enqueued: it has to stand behind the verification of the one
  /// before, which the sampler enqueues. Null: it is on the lane.
  std::shared_ptr<gpu::Step> step{};
};

/// What a verdict made of what was drafted past its window.
enum class Hit {
  none,  ///< Nothing of it is of use.
  chain, ///< The lookahead's first token was judged and accepted: the chain goes on.
  fork,  ///< A fork was drafted for just this outcome, and goes on.
};

/// What became of one entry.
struct Verdict {
  SequenceId sequence = 0;
  Epoch epoch;
  int cached = 0;   ///< Committed tokens now in the target's pages (before `tokens`).
  int window = 0;   ///< Tokens of the window that were there to be judged.
  int judged = 0;   ///< Accepted plus first rejection, lookahead included.
  int accepted = 0; ///< Lookahead included.
  Hit hit = Hit::none;
  /// The armed batch behind this one runs for it, and has begun by now: a full hit, whose next
  /// window was bound as a whole.
  bool goes_on = false;
  ChainRef next; ///< What is drafted now: the entry's chain, its fork, the next chain; or null.
  bool had_lookahead = false; ///< There was a bound lookahead to judge, or a fork.
  int guesses = 0;            ///< The draft's for the token that took a drafted one's place,
  int guess_rank = -1;        ///< and which of them it was; -1: none.
  sampling::JudgedByMargin by_margin; ///< As far as the draft made guesses.
  std::uint64_t forked = 0;           ///< Tokens drawn for outcomes that did not come true.
  std::vector<TokenId> tokens;        ///< To commit: accepted ones and the one that follows.
  std::vector<TokenSource> sources;
  std::vector<TokenLogprob> logprobs;
  std::vector<TokenLogprob> prompt_logprobs; ///< Of the prompt tokens fed in this step.
  bool draft_late = false;                   ///< A bound token did not come in time.
  bool draft_lied = false;                   ///< A token was not the draw of the q shown.
  bool failed = false;                       ///< The target's row was not a distribution.
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

/// What a verification makes: the same news for the scheduler and for the draft.
struct Judged {
  Verdicts verdicts;
  Frontiers frontiers;
};

/// All windows the scheduler waits for are there. ticket: which wait.
struct WindowsReady {
  std::uint64_t ticket = 0;
};

} // namespace paceline::messages
