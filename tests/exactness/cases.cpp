#include "tests/exactness/cases.hpp"

#include "tests/sampling/toy_constraint.hpp"

namespace paceline::testing {
namespace {

/// window: 0 to adapt it, up to 4.
speculation::PolicyOptions policy(SpeculationMode mode, int window) {
  speculation::PolicyOptions options;
  options.mode = mode;
  options.window_limit = 4;
  options.lookahead = Lookahead::chain;
  if (window > 0)
    options.window = window;
  return options;
}

sampling::Warping warped() {
  sampling::Warping warping;
  warping.temperature = 0.8f;
  warping.top_p = 0.9f;
  warping.repetition_penalty = 1.2f;
  warping.presence_penalty = 0.3f;
  warping.frequency_penalty = 0.2f;
  return warping;
}

} // namespace

Case late_lookaheads() {
  Setting s;
  s.policy = policy(SpeculationMode::overlap, 2);
  s.together = 1;
  s.pace = {.target = 2ms, .draft = 500us, .malice = Malice::token, .late_by = 3ms};
  return {"late lookaheads", s, 1};
}

Case partial_windows() {
  Setting s;
  s.policy = policy(SpeculationMode::overlap, 3);
  s.together = 2;
  s.pace = {.target = 2ms, .draft = 1500us, .malice = Malice::after_token, .late_by = 2ms};
  return {"partial windows", s, 1};
}

Case adapting_mode() {
  Setting s;
  s.policy = policy(SpeculationMode::automatic, 0);
  s.policy.window_limit = 2;
  s.warping = warped();
  s.length = 7;
  s.together = 6;
  s.prefill_chunk = 7;
  s.acceptance = 0.8;
  s.pace = {.target = 5ms, .draft = 500us, .malice = Malice::unlikely, .late_by = 2ms};
  return {"adapting mode", s, 1};
}

Case adapting_windows() {
  Setting s;
  s.policy = policy(SpeculationMode::overlap, 0);
  s.target.vocabulary = 5;
  s.length = 4;
  s.together = 3;
  s.pace = {.target = 3ms, .draft = 700us, .malice = Malice::likely, .late_by = 3ms};
  return {"adapting windows", s, 1};
}

Case mixed_modes() {
  Setting s;
  s.policy = policy(SpeculationMode::automatic, 0);
  s.together = 16;
  s.page_tokens = 4;
  s.pace.malice = Malice::token;
  s.vary = [](speculation::SequenceSpec& spec, int n) {
    constexpr SpeculationMode modes[] = {SpeculationMode::automatic, SpeculationMode::overlap,
                                         SpeculationMode::sync, SpeculationMode::off};
    spec.speculation = modes[n % 4];
    spec.window = n / 4 % 4;
  };
  return {"mixed modes", s, 1};
}

Case whole_windows() {
  Setting s;
  s.policy = policy(SpeculationMode::sync, 3);
  s.warping = warped();
  s.pace.malice = Malice::unlikely;
  return {"whole windows", s, 1};
}

Case early_ends() {
  Setting s;
  s.policy = policy(SpeculationMode::sync, 0);
  s.policy.early_ends = true;
  s.target.vocabulary = 5;
  s.length = 5;
  s.together = 2;
  s.pace = {.target = 2ms, .draft = 700us, .malice = Malice::token, .late_by = 2ms};
  return {"early ends", s, 1};
}

Case forks() {
  Setting s;
  s.policy = policy(SpeculationMode::overlap, 2);
  s.policy.lookahead = Lookahead::fork;
  s.policy.fork_rows = 6;
  s.together = 1;
  s.page_tokens = 4;
  s.length = 6;
  s.pace = {.target = 3ms, .draft = 700us, .malice = Malice::last_token, .late_by = 2ms};
  return {"forks", s, 3};
}

Case trees() {
  Setting s;
  s.policy = policy(SpeculationMode::sync, 3);
  s.policy.lookahead = Lookahead::fork;
  s.policy.fork_rows = 3;
  s.policy.tree_rows_max = 8;
  s.policy.tree_rows = 8;
  s.together = 2;
  s.page_tokens = 4;
  s.length = 6;
  s.pace = {.target = 3ms, .draft = 700us, .malice = Malice::likely_fork, .late_by = 2ms};
  return {"trees", s, 2};
}

Case trees_under_way() {
  Case c = trees();
  c.setting.policy.window.reset();
  c.setting.policy.fork_rows = 1;
  c.setting.pace = {.target = 2ms, .draft = 700us, .malice = Malice::likely_fork, .late_by = 2ms};
  return {"trees under way", c.setting, 4};
}

Case adapting_trees() {
  Setting s;
  s.policy = policy(SpeculationMode::sync, 0);
  s.policy.lookahead = Lookahead::automatic;
  s.policy.early_ends = true;
  s.policy.tree_rows_max = 12;
  s.target.vocabulary = 5;
  s.warping = warped();
  s.length = 5;
  s.together = 1;
  s.pace = {.target = 5ms, .draft = 300us, .malice = Malice::unlikely, .late_by = 2ms};
  return {"adapting trees", s, 1};
}

Case late_forks() {
  Case c = forks();
  c.setting.policy.window = 1;
  c.setting.policy.fork_rows = 1;
  c.setting.pace.malice = Malice::likely_fork;
  c.setting.pace.late_by = 4ms;
  c.setting.length = 5;
  return {"late forks", c.setting, 12}; // what is late decides on few tokens
}

Case there(Case c) {
  c.setting.one_way = 300us;
  return {c.name + " behind a wire", c.setting, c.share};
}

Case scarce_rows() {
  Case c = forks();
  c.setting.together = 3;
  c.setting.q_rows = 7;
  c.setting.pace.malice = Malice::token;
  return {"scarce rows of q", c.setting, 1};
}

Case constrained() {
  Case c = forks();
  c.setting.target.vocabulary = 5;
  c.setting.length = 5;
  c.setting.warping.allowed = {0, 1, 3, 4};
  c.setting.warping.held_back = {1};
  c.setting.warping.min_tokens = 3;
  c.setting.pace.malice = Malice::token;
  return {"constrained tokens", c.setting, 1};
}

Case answers_in_a_form() {
  Case c = forks();
  c.setting.target.vocabulary = 5;
  c.setting.length = 5;
  c.setting.warping.constraint = std::make_shared<ToyConstraint>(5, 3, 5, -1);
  c.setting.pace.malice = Malice::token;
  return {"answers in a form", c.setting, 1};
}

Case adapting_forks() {
  Setting s;
  s.policy = policy(SpeculationMode::automatic, 0);
  s.policy.lookahead = Lookahead::automatic;
  s.policy.fork_rows = 5;
  s.warping = warped();
  s.length = 7;
  s.together = 3;
  s.pace = {.target = 4ms, .draft = 600us, .malice = Malice::token, .late_by = 3ms};
  return {"adapting forks", s, 1};
}

Case pre_enqueued_steps() {
  Setting s;
  s.policy = policy(SpeculationMode::overlap, 1);
  s.acceptance = 0.8;
  s.warping = warped();
  s.length = 7;
  s.together = 1;
  s.pace = {.target = 3ms, .draft = 700us, .malice = Malice::token, .late_by = 2ms};
  return {"pre-enqueued steps", s, 1};
}

Case forks_in_flight() {
  Setting s;
  s.policy = policy(SpeculationMode::overlap, 1);
  s.policy.lookahead = Lookahead::fork;
  s.policy.fork_rows = 15;
  s.acceptance = 0.6;
  s.together = 1;
  s.page_tokens = 4;
  s.length = 7;
  s.pace = {.target = 4ms, .draft = 200us, .malice = Malice::last_token, .late_by = 1ms};
  return {"forks in flight", s, 1};
}

Case passes_behind() {
  Setting s;
  s.policy = policy(SpeculationMode::overlap, 3);
  s.warping = warped();
  s.length = 6;
  s.together = 2;
  s.queues = true;
  s.pace = {.target = 3ms, .draft = 700us, .malice = Malice::token, .late_by = 2ms};
  return {"passes behind", s, 1};
}

// After a token that was late the draft rests for longer than that took. Steps are long, too, so
// that it works again soon, by their count.

Case windows_beyond_patience() {
  Setting s;
  s.policy = policy(SpeculationMode::sync, 1);
  s.together = 1;
  s.gives_up = false;
  s.pace = {.target = 10s, .draft = 500us, .malice = Malice::token, .late_by = 11s};
  return {"windows beyond patience", s, 1};
}

Case lookaheads_beyond_patience() {
  Setting s;
  s.policy = policy(SpeculationMode::overlap, 2);
  s.policy.lookahead = Lookahead::fork;
  s.policy.fork_rows = 6;
  s.together = 1;
  s.gives_up = false;
  s.pace = {.target = 5s, .draft = 500us, .malice = Malice::token, .late_by = 18s};
  return {"lookaheads beyond patience", s, 1};
}

/// Fewer are accepted, so that they have to be cheap for somebody who may do without.
Case in_another_vocabulary(Case c) {
  c.name += ", another vocabulary";
  c.setting.words = {"a", "b", "ab", "c"};
  c.setting.draft_words = {"b", "d", "a", "e", "ca"};
  c.setting.pace.draft /= 5;
  if (c.setting.target.vocabulary == 5)
    c.setting.words.push_back("ba");
  return c;
}

Case coarse_noise() {
  Setting s;
  s.coarse = true;
  s.policy = policy(SpeculationMode::overlap, 2);
  s.together = 2;
  s.length = 4;
  s.pace.malice = Malice::token;
  return {"coarse noise", s, 1};
}

} // namespace paceline::testing
