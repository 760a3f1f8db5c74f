// Runs in which every path through a round is taken, by every mode and under every adversary.
#pragma once

#include "tests/exactness/run.hpp"

#include <string>
#include <vector>

namespace paceline::testing {

struct Case {
  std::string name;
  Setting setting;
  int share = 1; ///< Of requests, beside the other cases: faint mistakes want more.
};

/// Fixed windows of 2, one sequence: a lookahead's first token that is late decides alone whether
/// the pass ends before it.
Case late_lookaheads();
/// A draft nearly as slow as the target, windows of 3: what is there in time is judged.
Case partial_windows();
/// Windows and mode follow what rounds have shown; penalties and top-p.
Case adapting_mode();
/// Windows follow; more tokens, less alike.
Case adapting_windows();
/// Every request has a mode and a window of its own, in one batch.
Case mixed_modes();
/// Waiting for whole windows.
Case whole_windows();
/// Waiting for windows of 3 with rows beside them, for guesses and what is drafted behind these.
Case trees();
/// The same with windows that follow, and are not waited for where a token of a fork is late.
Case trees_under_way();
/// The first, with mode, windows and rows that follow what rounds have shown; penalties and top-p.
Case adapting_trees();
/// Waiting for windows that end where the draft was not sure of a token.
Case early_ends();
/// Forks of one sequence, windows of 2; those that came true are late by what they drew.
Case forks();
/// Forks in batches, few rows for many outcomes; windows, mode and kind of lookahead follow what
/// rounds have shown; penalties and top-p.
Case adapting_forks();
/// Windows of one, one sequence: the target's lane goes on by itself where the next one, which is
/// late by what it drew, was bound in time; penalties and top-p.
Case pre_enqueued_steps();
/// Windows of one and forks of one sequence, which over stages are in flight, both.
Case forks_in_flight();
/// Windows of 3: the draft's next token is bound, and drawn, before the one before it is known;
/// penalties and top-p.
Case passes_behind();
/// Windows of one that are waited for; one that is late by what it drew comes later than anybody
/// waits for it.
Case windows_beyond_patience();
/// The same of lookaheads, forks and windows of two.
Case lookaheads_beyond_patience();
/// Fewer rows of q than windows and forks want: chains end where there is none.
Case scarce_rows();
/// One token is not allowed, another one not before the fourth.
Case constrained();
/// What may come next hangs on all of the output.
Case answers_in_a_form();
/// Gives the case a draft with another vocabulary, which can say half of the target's tokens, and
/// reads one of them as two.
Case in_another_vocabulary(Case c);
/// Forks of one sequence, of which the likeliest are late by what they drew.
Case late_forks();
/// The same with the draft behind a wire.
Case there(Case c);
/// coarse_rules.hpp; for `rejection`.
Case coarse_noise();

inline std::vector<Case> cases_of(sampling::Rule rule) {
  std::vector<Case> cases{late_lookaheads(), partial_windows(), adapting_mode(), adapting_windows(),
                          mixed_modes(),     whole_windows(),   forks(),         adapting_forks()};
  if (rule == sampling::Rule::rejection)
    cases.push_back(coarse_noise());
  cases.push_back(scarce_rows());
  cases.push_back(constrained());
  cases.push_back(pre_enqueued_steps());
  cases.push_back(passes_behind());
  cases.push_back(windows_beyond_patience());
  cases.push_back(lookaheads_beyond_patience());
  cases.push_back(forks_in_flight());
  cases.push_back(answers_in_a_form());
  cases.push_back(early_ends());
  cases.push_back(trees());
  cases.push_back(trees_under_way());
  cases.push_back(adapting_trees());
  for (Case& c : cases) {
    c.setting.rule = rule;
    c.setting.seed = std::uint64_t(&c - cases.data()) + 1;
  }
  return cases;
}

} // namespace paceline::testing
