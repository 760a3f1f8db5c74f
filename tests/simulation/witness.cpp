#include "tests/simulation/witness.hpp"

#include "tests/simulation/message_kinds.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace paceline::testing {

using actors::Arrival;
using namespace messages;
using namespace scheduling;
using namespace speculation;

enum Witness::Probe : std::size_t {
  killed_before_commit,
  rollback_of_recomputed,
  draft_died_before_hit,
  preempted_in_flight,
  released_in_flight,
  cancelled_in_recomputation,
  deadline_before_verdict,
  deadline_after_verdict,
  lane_woke_too_late,
  lane_woke_to_wanted_pages,
  scheduler_died_after_lie,
  draft_failed_too_often,
  given_up_after_recomputations,
  asked_after_the_end,
  pre_enqueued_step,
  pre_enqueued_row_wasted,
  pre_enqueued_in_vain,
  verdicts_overtaken,
  died_in_pre_enqueued_step,
  passed_behind,
  judged_both,
  judged_forms,
  target_moved,
  chunk_behind_another,
  chunk_out_of_turn,
  chunk_behind_a_failed_one,
  fork_went_on,
  went_on_as_fork,
  forks_in_line,
  tree_brought,
  probes,
};

namespace {

constexpr std::array names{
    "kill between verdict and commit",
    "rollback of a sequence that is being recomputed",
    "death of the draft with a hit in flight",
    "preemption of a sequence that is being verified",
    "pages given back while a step is in flight",
    "cancel during a recomputation",
    "deadline before a verdict that is under way",
    "deadline after a verdict",
    "verdicts of a batch that was given up",
    "stalled lane waking after its pages were wanted",
    "death of the scheduler after its draft had lied",
    "draft disabled because it kept failing",
    "request given up after its recomputations",
    "request after the engine's end",
    "pre-enqueued step that ran",
    "row of a pre-enqueued step whose sequence had ended",
    "pre-enqueued step that nothing went on to",
    "verdicts that overtook those of the step before",
    "death of an actor while a pre-enqueued step runs",
    "verdict after a pass of the draft that stood ready",
    "window that a look-up and the model wrote together",
    "window that the form of an answer and a drafter wrote together",
    "target moved to its standby",
    "chunk of a prompt behind one in flight",
    "chunk that came before the one that it follows",
    "chunk in flight behind one that failed",
    "fork that came true and went on",
    "step under way that went on as a fork",
    "two steps under way that went on as a fork",
    "tokens of a guess beside a window, and of what was drafted behind it",
};

} // namespace

std::span<const char* const> probe_names() {
  return names;
}

void Witness::reached(Probe probe) {
  static_assert(names.size() == probes);
  ++report_.probes[names[probe]];
}

void Witness::watch_admissions(base::Duration step, const Ground& ground) {
  admissions_.emplace(step);
  ground_ = &ground;
}

void Witness::sees(const Arrival& arrival) {
  if (auto wrong = turns_.sees(arrival))
    report_.failures.push_back(*std::move(wrong));
  if (admissions_ && ground_->faults->count() > 0)
    admissions_.reset();
  if (admissions_)
    if (auto wrong = admissions_->sees(arrival, ground_->system.now()))
      report_.failures.push_back(*std::move(wrong));
  if (const auto* batch = as<Batch>(arrival))
    sees(*batch);
  else if (const auto* verdicts = as<Verdicts>(arrival)) {
    if (std::string_view(arrival.name) == "scheduler")
      sees(*verdicts);
  } else if (const auto* released = as<KvRelease>(arrival))
    loses_pages(released->sequence);
  else if (const auto* reserved = as<KvReserve>(arrival)) {
    holding_.insert(reserved->sequence);
    wanted_ |= asleep_ > 0 && telemetry_->kv_pages_quarantined > 0;
  } else if (as<DisableDraft>(arrival))
    lied_ = true;
  else if (as<KvReset>(arrival))
    while (!holding_.empty())
      loses_pages(*holding_.begin());
  else if (const auto* cancel = as<Cancel>(arrival);
           cancel && recomputing_.contains(cancel->request))
    reached(cancelled_in_recomputation);
}

void Witness::loses_pages(SequenceId sequence) {
  holding_.erase(sequence);
  recomputing_.insert(sequence);
  if (!step_.in_flight.contains(sequence))
    return;
  reached(released_in_flight);
  if (telemetry_->preemptions > preemptions_)
    reached(preempted_in_flight);
  preemptions_ = telemetry_->preemptions;
}

void Witness::dies(std::string_view name) {
  draft_died_ |= name == "draft" && !step_.speculating.empty();
  if (step_.after > 0 && !step_.in_flight.empty())
    reached(died_in_pre_enqueued_step);
  if (name == "scheduler" && lied_)
    reached(scheduler_died_after_lie);
}

void Witness::sees(LaneNews news) {
  if (news == LaneNews::abandoned) {
    ++asleep_;
    return;
  }
  if (std::exchange(wanted_, false))
    reached(lane_woke_to_wanted_pages);
  --asleep_;
}

void Witness::settles() {
  if (telemetry_->draft_disabled && !lied_)
    reached(draft_failed_too_often);
  if (telemetry_->target_moved)
    reached(target_moved);
}

void Witness::dies_of(const Arrival& arrival) {
  if (as<Verdicts>(arrival))
    reached(killed_before_commit);
  dies(arrival.name);
}

void Witness::sees(const Batch& batch) {
  if (batch.id <= step_.id)
    return;
  if (drafts_of_)
    for (const BatchEntry& entry : batch.entries)
      judged_[batch.id].push_back({entry.spec, entry.log, entry.length, entry.round.chain});
  Step step{batch.id, batch.after, {}, {}};
  for (const BatchEntry& entry : batch.entries) {
    if (entry.feed.follows > 0) {
      reached(chunk_behind_another);
      followed_.insert(entry.feed.follows);
    }
    step.in_flight.insert(entry.spec->id);
    if (entry.round.window > 0)
      step.speculating.insert(entry.spec->id);
  }
  if (batch.after > 0)
    pre_enqueued_ = std::move(step);
  else
    runs(std::move(step));
}

void Witness::runs(Step step) {
  step_ = std::move(step);
  report_.windows_in_flight = std::max(report_.windows_in_flight, int(step_.speculating.size()));
}

/// Batches under way go on as the fork has them that came true.
void Witness::follow_fork(const speculation::Chain& judged, int length, const Verdict& verdict) {
  if (verdict.hit != scheduling::Hit::fork)
    return;
  const int position = length + int(verdict.tokens.size()) - 1;
  const auto fork = judged.fork(position, verdict.tokens.back());
  for (const scheduling::Continuation& on : verdict.continuations)
    for (Judged& each : judged_[on.batch])
      if (each.spec->id == verdict.sequence) {
        each.chain = fork;
        each.length = on.length;
      }
}

/// The output would be right with any draft: that is what verification is for.
void Witness::check_drafts(const Verdicts& verdicts) {
  const auto judged = judged_.extract(verdicts.batch);
  for (const Verdict& verdict : verdicts.sequences) {
    if (judged.empty())
      return;
    const auto at = std::ranges::find(judged.mapped(), verdict.sequence,
                                      [](const Judged& each) { return each.spec->id; });
    const auto chain = at == judged.mapped().end() ? nullptr : at->chain.lock();
    if (!chain)
      continue;
    follow_fork(*chain, at->length, verdict);
    if (at->log->size() < at->length)
      continue;
    const auto known = at->log->first(at->length);
    std::vector<TokenId> tokens(known.begin(), known.end());
    for (int i = 0; i < verdict.window; ++i) {
      const TokenId token = chain->token(at->length + i);
      if (token != drafted_behind(*drafts_of_, *at->spec, tokens, chain->attempt()))
        report_.failures.push_back(fmt::format("request {}: position {} has another draft's token",
                                               verdict.sequence, tokens.size()));
      tokens.push_back(token);
    }
  }
}

void Witness::sees(const Verdicts& verdicts) {
  check_drafts(verdicts);
  if (const auto& why = verdicts.error) {
    if (why->message.find("before the one that it follows") != std::string::npos)
      reached(chunk_out_of_turn);
    if (followed_.contains(verdicts.batch))
      reached(chunk_behind_a_failed_one);
  }
  if (verdicts.batch < step_.id)
    reached(lane_woke_too_late);
  if (pre_enqueued_ && verdicts.batch == pre_enqueued_->id)
    reached(verdicts_overtaken);
  for (const Verdict& verdict : verdicts.sequences) {
    if (verdict.hit != scheduling::Hit::none && draft_died_)
      reached(draft_died_before_hit);
    if (recomputing_.contains(verdict.sequence) && verdict.judged > verdict.accepted)
      reached(rollback_of_recomputed);
    if (verdict.hit == scheduling::Hit::fork) {
      reached(fork_went_on);
      if (verdict.goes_on())
        reached(went_on_as_fork);
      if (verdict.continuations.size() > 1)
        reached(forks_in_line);
    }
    if (verdict.tree_tokens > 1)
      reached(tree_brought);
    if (verdict.looked_up > 0 && verdict.looked_up < verdict.judged)
      reached(judged_both);
    if (verdict.formed_judged > 0 && verdict.formed_judged < verdict.judged)
      reached(judged_forms);
    if (verdicts.batch == step_.id && holding_.contains(verdict.sequence))
      recomputing_.erase(verdict.sequence);
  }
  if (verdicts.batch != step_.id)
    return;
  const std::uint64_t before = std::exchange(passes_behind_, telemetry_->passes_behind.load());
  if (before < passes_behind_)
    reached(passed_behind);
  draft_died_ = false;
  step_.in_flight.clear();
  step_.speculating.clear();
  auto pre_enqueued = std::exchange(pre_enqueued_, std::nullopt);
  if (!pre_enqueued || pre_enqueued->after != verdicts.batch)
    return;
  if (std::ranges::none_of(verdicts.sequences, &Verdict::goes_on))
    return reached(pre_enqueued_in_vain);
  reached(pre_enqueued_step);
  runs(std::move(*pre_enqueued));
}

void Witness::ends(SequenceId request, const Finished& end, int output) {
  const FinishReason reason = end.reason;
  if (end.error && end.error->message.find("recomputed") != std::string::npos)
    reached(given_up_after_recomputations);
  if (end.error && end.error->message == "the engine has ended")
    reached(asked_after_the_end);
  if (step_.after > 0 && step_.in_flight.contains(request))
    reached(pre_enqueued_row_wasted);
  if (reason == FinishReason::deadline && step_.in_flight.contains(request))
    reached(deadline_before_verdict);
  else if (reason == FinishReason::deadline && output > 0)
    reached(deadline_after_verdict);
  recomputing_.erase(request);
}

} // namespace paceline::testing
