// What is drafted for the sequences, and whether a step waits for it.
#pragma once

#include "scheduling/actions.hpp"
#include "scheduling/config.hpp"
#include "scheduling/draft_trust.hpp"
#include "scheduling/sequence.hpp"
#include "scheduling/step_cost.hpp"
#include "speculation/policy.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace paceline::scheduling {

/// The draft as the scheduler sees it: what it is to write for each sequence, what a step that
/// could begin waits for, and how far it is trusted. Looks at counts of bound positions only: a
/// token's value never decides whether it is judged (docs/theory.md).
class Drafting {
public:
  Drafting(const SchedulerConfig& config, Sequences& sequences, EpochMint& epochs,
           const StepCost& cost);

  /// draft: a number for the one there is now, another for each successor; 0: there is none.
  void set_draft(std::uint64_t draft);
  std::uint64_t draft() const { return draft_; }

  // What is drafted.
  bool speculates(const Sequence& s, base::TimePoint now) const;
  /// Nothing is drafted for it: the draft kept failing, and nobody else drafts.
  bool pauses(const Sequence& s) const { return !s.throttle.speculate() && !looks_up(s); }
  /// The engine's plan, bent by what the request asked for.
  speculation::Plan plan_for(const Sequence& s) const;
  /// Chooses the window of each of these, which the next step decodes beside so many rows of
  /// prompts: the rows of a step go to whom they are expected to bring most, and where lookahead is
  /// left to the engine nothing is drafted ahead while waiting for windows should bring more. One
  /// sequence alone has the engine's, and so have all where it is fixed.
  void share_windows(std::span<Sequence* const> decoding, int prompt_rows);
  /// What each of so many sequences may spend on forks, which share the rows of a pass: nothing
  /// while a sequence that has begun waits for pages.
  Forking share_of_forks(std::size_t sequences) const;
  /// What the draft does after the verdict of a step that ends at `length`, decided before it is
  /// known; no chain where nothing is drafted.
  NextDraft plan_next(const Sequence& s, int length, const Forking& forking, base::TimePoint now);
  /// What has it read the committed tokens, and draw nothing yet.
  speculation::Frontier reading(const Sequence& s);
  /// Its pages of the draft's; null: what drafts has none.
  gpu::PageTableRef pages_of(const Sequence& s) const;
  const speculation::SpeculationPolicy& policy() const { return policy_; }

  // Waiting for windows.
  /// Whether somebody could be in a step now whose window is not waited for.
  bool any_ready(base::TimePoint now) const;
  /// Whether its tokens have to repeat, and its window is not all there.
  bool must_wait(const Sequence& s, base::TimePoint now) const {
    return is_late(s, now) && waits_for_all(s);
  }
  /// Has a step wait for windows that are not all there yet, where expected tokens per second gain
  /// by it, and always where tokens have to repeat (`sync` with a fixed window). False: there are
  /// none.
  bool wait_for_windows(Turn& turn);
  bool waiting() const { return wait_.has_value(); }
  /// The windows of that wait are there.
  void windows_ready(std::uint64_t ticket);
  void stop_waiting() { wait_.reset(); }
  /// When the present wait is given up.
  std::optional<base::TimePoint> wait_ends() const;
  /// Gives it up if it has lasted too long: what is bound by now holds its sequence up, and the
  /// others go on.
  void end_late_wait(base::TimePoint now);
  /// How long a pass of the draft takes; 0: not known yet.
  base::Duration step() const;
  /// How long a bound token, or a window, is waited for before the draft counts as late.
  base::Duration timeout() const;

  // What becomes of it.
  /// Nobody will go on with the sequence's chain. successor: a fork of it that goes on.
  void retire_chain(Sequence& s, const Chain* successor = nullptr);
  void retire_all_chains(base::TimePoint now);
  /// No more is written for outcomes other than the chains' own. False: nothing was.
  bool end_forks();
  /// A bound token of this sequence's was waited for in vain. The sequence is held up until it is
  /// there, or its draft is dead; others go on.
  void was_late(Sequence& s, base::TimePoint now);
  /// Has those that are held up told of, once each. False: there are none.
  bool await_held_up(Turn& turn);
  /// It goes on.
  void release(Sequence& s, base::TimePoint now);
  /// It drew a token that its q and the key do not give: it is not used again.
  void disable(Turn& turn);
  /// Ends a draft that stands still. One that is late is done without; only this one has to go.
  void watch(Turn& turn);
  /// What was judged of it. A draft that keeps failing pauses for a while.
  void learn(Sequence& s, const Verdict& verdict);
  void observe_guess(int rank) { policy_.observe_guess(rank); }
  void observe(speculation::RoundObservation round);

private:
  int windows_ahead(int window) const;
  bool looks_up(const Sequence& s) const;
  Drafters drafters(const Sequence& s, const speculation::Plan& plan) const;
  double acceptance(const Sequence& s) const;
  double draft_seconds(int rows) const;
  speculation::ShareTerms share_terms(int rows, double context, bool waits) const;
  speculation::WindowShares shares_of(std::span<Sequence* const> sharing, int rows, double context,
                                      bool waits) const;
  bool is_late(const Sequence& s, base::TimePoint now) const;
  bool repeats(const Sequence& s) const;
  bool waits_for_all(const Sequence& s) const;
  /// A step of all that could be in one now, if it waited for no window.
  struct StepNow {
    int sequences = 0;
    int rows = 0;
    double context = 0;
    double tokens = 0; ///< What it is expected to bring.
  };
  StepNow step_now() const;
  speculation::OverlappedSequence overlapped(const Sequence& s) const;
  int passes_worth_waiting(std::span<const Sequence* const> late) const;

  const SchedulerConfig& config_;
  Sequences& sequences_;
  EpochMint& epochs_;
  const StepCost& cost_;
  speculation::SpeculationPolicy policy_;
  std::uint64_t draft_ = 0;
  bool enabled_;
  base::Duration step_{}; ///< By the last chain that was retired.
  DraftBackOff back_off_;
  DraftWatch watch_;

  struct Wait {
    std::uint64_t ticket = 0;
    base::TimePoint since;
  };
  std::optional<Wait> wait_;
  std::uint64_t tickets_ = 0;
};

} // namespace paceline::scheduling
