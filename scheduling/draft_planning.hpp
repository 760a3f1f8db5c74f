// Plans what is drafted for the sequences.
#pragma once

#include "scheduling/config.hpp"
#include "scheduling/draft_health.hpp"
#include "scheduling/sequences.hpp"
#include "scheduling/step_cost.hpp"
#include "speculation/policy.hpp"

#include <span>

namespace paceline::scheduling {

/// Plans what the draft is to write for each sequence: the engine's plan, changed by what its
/// request asked for, by what has been judged of it, and by how its draft does.
class DraftPlanning {
public:
  DraftPlanning(const SchedulerConfig& config, Sequences& sequences, EpochMint& epochs,
                const StepCost& cost, const DraftHealth& health);

  /// Returns the state of the sequence's draft.
  DraftState state(const Sequence& s, base::TimePoint now) const;
  bool speculates(const Sequence& s, base::TimePoint now) const;
  /// Says whether the sequence's windows do not pay, and nobody but a model drafts.
  bool pauses(const Sequence& s) const { return !s.health.pays() && !looks_up(s); }
  /// Says whether the form of the sequence's answer drafts: always, whatever else does.
  bool forms(const Sequence& s) const;
  /// Returns the engine's plan, changed by what the request asked for.
  speculation::Plan plan_for(const Sequence& s) const;
  /// Says whether the request's tokens have to repeat, whatever the rule.
  bool repeats(const Sequence& s) const { return repeats(s, plan_for(s)); }
  /// Returns the rows beside the sequence's window, at most so many.
  TreeRows tree_of(const Sequence& s, int most) const;
  /// Chooses the window of each of these, which the next step decodes beside so many rows of
  /// prompts: the rows of a step go where they are expected to bring most, and where lookahead is
  /// left to the engine nothing is drafted ahead while waiting for windows should bring more. One
  /// sequence alone has the engine's window, and so have all where it is fixed.
  void share_windows(std::span<Sequence* const> decoding, int prompt_rows);
  /// Returns what each of so many sequences may spend on forks, which share the rows of a pass:
  /// nothing while a sequence that has begun waits for pages.
  Forking share_of_forks(std::size_t sequences) const;
  /// Plans what the draft does after the verdict of a step that ends at `length`, before that
  /// verdict is known. The plan has no chain where nothing is drafted.
  NextDraft plan_next(const Sequence& s, int length, const Forking& forking, base::TimePoint now);
  /// Returns a frontier that makes the draft read the committed tokens, and draw nothing yet.
  speculation::Frontier reading(const Sequence& s);
  /// Returns the sequence's pages of the draft; null: what drafts has none.
  gpu::PageTableRef pages_of(const Sequence& s) const;

  /// Learns from what was judged of the sequence.
  void learn(Sequence& s, const Verdict& verdict);
  void observe_guess(int rank) { policy_.observe_guess(rank); }
  void observe(const speculation::RoundObservation& round);

  const speculation::SpeculationPolicy& policy() const { return policy_; }
  /// Returns the sequence's own acceptance, as far as it is known.
  double acceptance(const Sequence& s) const;
  /// Returns the time of a pass of the draft. rows: of the target's step, to whose time the prior
  /// is a ratio.
  double draft_seconds(int rows) const;
  /// Returns the time of a target step of any size, boldly predicted; 0: nothing is known.
  double step_seconds(int rows, double context) const;

private:
  int windows_ahead(int window) const;
  double rows_cost(int rows) const;
  int within_block(int window) const;
  bool looks_up(const Sequence& s) const;
  bool repeats(const Sequence& s, const speculation::Plan& plan) const;
  speculation::Plan plan_of_drafters(const Sequence& s) const;
  Drafters drafters(const Sequence& s, const speculation::Plan& plan) const;
  speculation::ShareTerms share_terms(int rows, double context, bool waits) const;
  speculation::WindowShares shares_of(std::span<Sequence* const> sharing, int rows, double context,
                                      bool waits) const;

  const SchedulerConfig& config_;
  Sequences& sequences_;
  EpochMint& epochs_;
  const StepCost& cost_;
  const DraftHealth& health_;
  struct {
    int sequences = 1;
    int rows = 1;
    double context = 0;
  } last_; ///< The last step.
  speculation::SpeculationPolicy policy_;
};

} // namespace paceline::scheduling
