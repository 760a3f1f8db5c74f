#include "execution/verify_step.hpp"

#include "scheduling/round.hpp"

#include <algorithm>
#include <utility>

namespace paceline::execution {

using scheduling::BatchEntry;
using scheduling::Hit;
using scheduling::Verdict;
using scheduling::Verdicts;

VerifyStep::VerifyStep(std::shared_ptr<ForwardPass> pass, int vocabulary, bool check_draws,
                       std::shared_ptr<base::Telemetry> telemetry, Done done)
    : pass_(std::move(pass)), vocabulary_(vocabulary), check_draws_(check_draws),
      telemetry_(std::move(telemetry)), done_(std::move(done)) {}

gpu::Step::Next VerifyStep::prepare(base::TimePoint now) {
  if (!pass_->retirement.completed || pass_->batch.entries.empty())
    return Next::done;
  if (phase_ == Phase::windows && cases_.empty()) {
    open_cases();
    plan_windows();
    plan_scores();
    deadline_ = now + pass_->batch.draft_timeout;
    begin_work(now);
    return Next::ready;
  }
  if (phase_ == Phase::behind && !ran_) {
    const auto settled = [this](std::size_t i) { return is_settled(i); };
    if (!std::ranges::all_of(owners_, settled) && now < deadline_)
      return Next::waiting;
    plan_behind();
    ran_ = true;
    if (tasks_.empty())
      return Next::done;
    begin_work(now);
    return Next::ready;
  }
  return Next::done;
}

void VerifyStep::begin_work(base::TimePoint now) {
  at_work_ = true;
  telemetry_->overlap.target_began(now);
}

void VerifyStep::end_work(base::TimePoint now) {
  if (std::exchange(at_work_, false))
    telemetry_->overlap.target_ended(now);
}

// This is the only reading of `bound`: the forward pass has just ended, and nothing has been
// judged.
void VerifyStep::open_cases() {
  for (std::size_t i = 0; i < pass_->batch.entries.size(); ++i) {
    const BatchEntry& entry = pass_->batch.entries[i];
    const ForwardPass::Rows& rows = pass_->rows[i];
    Case c;
    c.window.assign(rows.tokens.end() - rows.window, rows.tokens.end());
    for (int k = 0; k < rows.window; ++k)
      c.q.push_back(entry.spec->needs_q() ? entry.round.chain->q(entry.length + k) : nullptr);
    const bool judges_behind = entry.round.judge_lookahead || rows.window < entry.round.window;
    c.bound_behind = judges_behind && entry.round.chain &&
                     entry.round.chain->bound() > entry.length + rows.window;
    c.verdict.sequence = entry.spec->id;
    c.verdict.epoch = entry.epoch;
    c.verdict.cached = entry.length;
    c.verdict.window = rows.window;
    cases_.push_back(std::move(c));
  }
}

/// Whether the model has drawn the tokens from this row on. A look-up's draws, from a few tokens in
/// any order, are the engine's own, as those of a form are, and nobody repeats them.
bool VerifyStep::is_models_own(std::size_t index, int row) const {
  const BatchEntry& entry = pass_->batch.entries[index];
  for (int k = row; k < std::max(pass_->rows[index].window, row + 1); ++k)
    if (entry.round.chain->writer(entry.length + k) != speculation::Writer::drafter)
      return false;
  return true;
}

gpu::VerifyTask VerifyStep::task(std::size_t index, int row) const {
  const BatchEntry& entry = pass_->batch.entries[index];
  const ForwardPass::Rows& rows = pass_->rows[index];
  const gpu::Tensor logits = pass_->workspace->logits();
  gpu::VerifyTask t;
  // The rows that judge are the last of the entry's; a scored prompt has more before them.
  t.logits = logits.row(rows.first_logit_row + rows.logit_rows - rows.window - 1 + row);
  t.stride = logits.stride;
  t.vocabulary = vocabulary_;
  t.warping = &entry.spec->warping;
  t.history = {entry.log->first(entry.logged()), std::size_t(entry.spec->prompt_tokens),
               rows.prefix};
  t.rule = entry.spec->judged_by();
  t.noise = entry.spec->noise;
  t.position = std::uint32_t(entry.length + row);
  t.check_draws = check_draws_ && entry.round.chain && is_models_own(index, row);
  t.attempt = t.check_draws ? entry.round.chain->attempt() : 0;
  t.top_logprobs = entry.spec->top_logprobs;
  t.logprobs_mode = entry.spec->logprobs_mode;
  return t;
}

void VerifyStep::plan_windows() {
  for (std::size_t i = 0; i < cases_.size(); ++i) {
    if (!pass_->batch.entries[i].round.judges)
      continue;
    Case& c = cases_[i];
    gpu::VerifyTask t = task(i, 0);
    t.tokens = c.window;
    t.q = c.q;
    t.follow = !c.bound_behind;
    judged_rows_ += int(c.window.size()) + 1;
    tasks_.push_back(std::move(t));
    owners_.push_back(i);
  }
}

void VerifyStep::plan_scores() {
  for (std::size_t i = 0; i < cases_.size(); ++i) {
    const BatchEntry& entry = pass_->batch.entries[i];
    const ForwardPass::Rows& rows = pass_->rows[i];
    const int prompt = entry.spec->prompt_tokens;
    if (!entry.feed.scores || entry.feed.cached + 1 >= prompt)
      continue;
    const int count = std::min(entry.length, prompt - 1) - entry.feed.cached;
    const gpu::Tensor logits = pass_->workspace->logits();
    gpu::ScoreTask s;
    s.logits = logits.row(rows.first_logit_row);
    s.stride = logits.stride;
    s.vocabulary = vocabulary_;
    s.tokens =
        entry.log->first(prompt).subspan(std::size_t(entry.feed.cached) + 1, std::size_t(count));
    s.top = std::max(0, entry.spec->top_logprobs);
    scores_.push_back(std::move(s));
    score_owners_.push_back(i);
  }
}

/// Returns the position behind the rows that were judged: the lookahead's first, or one of the
/// window if not all of it was there.
int VerifyStep::position_behind(std::size_t index) const {
  return pass_->batch.entries[index].length + int(cases_[index].window.size());
}

/// Says whether the token behind the window is there, or never will be. A path's are all there.
bool VerifyStep::is_settled(std::size_t index) const {
  return cases_[index].path ||
         pass_->batch.entries[index].round.chain->settled(position_behind(index) + 1);
}

void VerifyStep::plan_behind() {
  tasks_.clear();
  std::vector<std::size_t> judged;
  for (const std::size_t i : owners_) {
    if (!is_settled(i)) {
      postpone(i);
      continue;
    }
    tasks_.push_back(cases_[i].path ? path_task(i) : lookahead_task(i));
    judged.push_back(i);
  }
  owners_ = std::move(judged);
}

/// Makes the task for the tokens behind a path's guess, which the verdict ends with by now. A
/// path's last row draws a token, whatever its chain has behind it, since that is of a fork that is
/// given up.
gpu::VerifyTask VerifyStep::path_task(std::size_t index) {
  const BatchEntry& entry = pass_->batch.entries[index];
  Case& c = cases_[index];
  const TreePath& path = *c.path;
  gpu::VerifyTask t = task(index, 0);
  t.logits = pass_->workspace->logits().row(path.first_logit_row);
  c.prefix = pass_->rows[index].prefix;
  c.prefix.insert(c.prefix.end(), c.verdict.tokens.begin(), c.verdict.tokens.end());
  t.history.prefix = c.prefix;
  t.position = std::uint32_t(path.position + 1);
  t.tokens = std::span(path.tokens).subspan(1);
  c.q.clear();
  for (int i = 1; i < path.rows(); ++i)
    c.q.push_back(entry.spec->needs_q() ? path.chain->q(path.position + i) : nullptr);
  t.q = c.q;
  t.check_draws = check_draws_ && path.chain;
  t.attempt = t.check_draws ? path.chain->attempt() : 0;
  return t;
}

/// Makes the task for the position behind, which the row behind judges; if the chain has ended
/// before that position, the row draws a token.
gpu::VerifyTask VerifyStep::lookahead_task(std::size_t index) {
  const BatchEntry& entry = pass_->batch.entries[index];
  Case& c = cases_[index];
  const int position = position_behind(index);
  gpu::VerifyTask t = task(index, int(c.window.size()));
  c.prefix = pass_->rows[index].prefix;
  c.prefix.insert(c.prefix.end(), c.window.begin(), c.window.end());
  t.history.prefix = c.prefix;
  if (entry.round.chain->drawn() > position) {
    c.lookahead = entry.round.chain->token(position);
    c.lookahead_q = entry.spec->needs_q() ? entry.round.chain->q(position) : nullptr;
    t.tokens = {&c.lookahead, 1};
    t.q = {&c.lookahead_q, 1};
    t.follow = false;
  }
  return t;
}

/// Ends the verdict before a bound token that is not there in time; a later step judges it. Nothing
/// may stand in its place, or the time of its draw would decide whether it is judged.
void VerifyStep::postpone(std::size_t index) {
  Verdict& verdict = cases_[index].verdict;
  verdict.draft_late = true;
  verdict.hit = Hit::chain;
  verdict.cached = position_behind(index) - 1; // The last token is fed again, for its logits.
}

void VerifyStep::run(gpu::Operations& operations) {
  operations.verify(tasks_);
  if (phase_ == Phase::windows)
    operations.score(scores_);
}

void VerifyStep::complete(base::TimePoint now) {
  end_work(now);
  if (phase_ == Phase::windows)
    take_windows();
  else
    take_behind();
}

void VerifyStep::take_tokens(Verdict& verdict, gpu::VerifyTask& task, TokenSource accepted) {
  for (int k = 0; k < task.accepted; ++k) {
    verdict.tokens.push_back(task.tokens[std::size_t(k)]);
    verdict.sources.push_back(accepted);
  }
  if (task.ended) {
    verdict.tokens.push_back(task.next);
    verdict.sources.push_back(TokenSource::target);
  }
  verdict.failed |= task.failed;
  verdict.inconsistent_draw |= task.inconsistent_draw;
  verdict.logprobs.insert(verdict.logprobs.end(), task.logprobs.begin(), task.logprobs.end());
}

void VerifyStep::count(Verdict& verdict, const gpu::VerifyTask& task) {
  verdict.accepted += task.accepted;
  verdict.judged += std::min(task.accepted + 1, int(task.tokens.size()));
}

/// Returns the path with the guess that took the rejected token's place; null: there is none.
const TreePath* VerifyStep::path_of(std::size_t index, const gpu::VerifyTask& judged) const {
  const int position = pass_->batch.entries[index].length + judged.accepted;
  const auto& paths = pass_->rows[index].paths;
  const auto at = std::ranges::find_if(paths, [&](const TreePath& path) {
    return path.position == position && path.tokens.front() == judged.next;
  });
  return judged.ended && at != paths.end() ? &*at : nullptr;
}

void VerifyStep::take_windows() {
  std::vector<std::size_t> pending;
  for (std::size_t t = 0; t < tasks_.size(); ++t) {
    Case& c = cases_[owners_[t]];
    const BatchEntry& entry = pass_->batch.entries[owners_[t]];
    take_tokens(c.verdict, tasks_[t], TokenSource::draft);
    count(c.verdict, tasks_[t]);
    const int fed = std::min(tasks_[t].accepted, int(c.window.size()));
    c.verdict.cached = entry.length + fed;
    c.path = path_of(owners_[t], tasks_[t]);
    if ((c.path || !tasks_[t].ended) && !tasks_[t].failed)
      pending.push_back(owners_[t]);
    for (const TreePath& path : pass_->rows[owners_[t]].paths) {
      c.verdict.tree_rows += path.rows();
      c.verdict.tree_expected += path.expected;
    }
  }
  for (std::size_t s = 0; s < scores_.size(); ++s)
    cases_[score_owners_[s]].verdict.prompt_logprobs = std::move(scores_[s].logprobs);
  owners_ = std::move(pending);
  phase_ = owners_.empty() ? Phase::done : Phase::behind;
}

void VerifyStep::take_behind() {
  for (std::size_t t = 0; t < tasks_.size(); ++t) {
    Case& c = cases_[owners_[t]];
    Verdict& verdict = c.verdict;
    take_tokens(verdict, tasks_[t], c.path ? TokenSource::draft : TokenSource::lookahead);
    const int before = verdict.judged;
    count(verdict, tasks_[t]);
    if (c.path) {
      verdict.path_judged = verdict.judged - before;
      verdict.path_accepted = tasks_[t].accepted;
      verdict.tree_tokens = tasks_[t].accepted + int(tasks_[t].ended);
      continue;
    }
    if (tasks_[t].accepted == 1)
      verdict.hit = Hit::chain;
  }
  phase_ = Phase::done;
}

/// Returns the features behind a verdict. The rows of rejected tokens lie behind those that count.
speculation::TargetFeatures VerifyStep::features_behind(std::size_t index) const {
  const BatchEntry& entry = pass_->batch.entries[index];
  if (!entry.next.reads_features)
    return {};
  const Case& c = cases_[index];
  if (!c.path)
    return {entry.feed.pages, c.verdict.cached};
  return {entry.feed.pages, c.path->position + 1 + c.verdict.path_accepted,
          c.path->table(*entry.feed.pages), c.path->position};
}

/// Turns the sequence over to what follows the verdict; the draft hears of it from this thread.
scheduling::Resolution VerifyStep::hand_over(std::size_t index, Judged& judged) {
  const BatchEntry& entry = pass_->batch.entries[index];
  Verdict& verdict = cases_[index].verdict;
  if (!entry.round.judges)
    return {};
  verdict.cached = entry.feed.own.value_or(verdict.cached);
  const bool whole = entry.round.whole && verdict.window == entry.round.window;
  verdict.had_lookahead = whole && cases_[index].bound_behind && !verdict.draft_late;
  scheduling::note_guesses(entry, verdict);
  const scheduling::Resolution resolved = scheduling::turn_over(entry, verdict);
  verdict.had_lookahead |= verdict.hit == Hit::fork; // Its chain may have ended.
  if (!entry.next.chain || verdict.failed)
    return resolved;
  std::vector<TokenId> tokens = pass_->rows[index].prefix;
  tokens.insert(tokens.end(), verdict.tokens.begin(), verdict.tokens.end());
  judged.frontiers.sequences.push_back({.spec = entry.spec,
                                        .epoch = entry.next.epoch,
                                        .log = entry.log,
                                        .log_length = entry.logged(),
                                        .tokens = std::move(tokens),
                                        .chain = resolved.chain,
                                        .pages = entry.next.pages,
                                        .residency = entry.next.residency,
                                        .forking = entry.next.forking,
                                        .features = features_behind(index),
                                        .drafters = entry.next.drafters,
                                        .early_end = entry.next.early_end});
  return resolved;
}

/// Decides whether the passes that were pre-enqueued behind this one go on. Looks at counts and at
/// judged tokens, and never at a token of the next window.
void VerifyStep::let_go_on(std::span<const scheduling::Resolution> resolved, Verdicts& verdicts) {
  std::vector<Onset> onsets;
  for (std::size_t i = 0; i < resolved.size(); ++i) {
    const Verdict& verdict = verdicts.sequences[i];
    const bool sound = verdict.hit != Hit::none && !verdict.inconsistent_draw;
    if (!resolved[i].over)
      onsets.push_back({i, sound ? resolved[i].chain : nullptr, resolved[i].length});
  }
  PassOutcome::go_on(*pass_->outcome, onsets, verdicts.sequences);
}

gpu::Work VerifyStep::work() const {
  return {gpu::Work::Kind::verify, judged_rows_, int(tasks_.size()), 0};
}

void VerifyStep::retire(const gpu::Retirement& how) {
  end_work(how.end);
  Judged judged;
  Verdicts& verdicts = judged.verdicts;
  verdicts.batch = pass_->batch.id;
  verdicts.begin = pass_->retirement.begin;
  verdicts.end = how.end;
  verdicts.busy = pass_->retirement.busy + how.busy;
  if (!pass_->retirement.completed || !how.completed) {
    PassOutcome::go_on(*pass_->outcome, {}, {});
    const auto& why = pass_->retirement.completed ? how.error : pass_->retirement.error;
    verdicts.error =
        why.value_or(Error{ErrorCode::unavailable, "the target's lane was closed", ""});
  } else {
    if (pass_->batch.entries.empty())
      return; // It was not needed: the scheduler knows from earlier verdicts.
    verdicts.rows = pass_->read;
    std::vector<scheduling::Resolution> resolved;
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      resolved.push_back(hand_over(i, judged));
      verdicts.sequences.push_back(std::move(cases_[i].verdict));
    }
    let_go_on(resolved, verdicts);
  }
  done_(std::move(judged));
}

} // namespace paceline::execution
