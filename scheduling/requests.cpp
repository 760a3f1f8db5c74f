#include "scheduling/requests.hpp"

#include "scheduling/limits.hpp"

#include <algorithm>
#include <utility>

namespace paceline::scheduling {

// ---- facts ----

Requests::Actions Requests::submit(const Submit& request, base::TimePoint now) {
  if (draining_) {
    Finished refused;
    refused.reason = FinishReason::error;
    refused.seed = request.spec->noise.seed;
    refused.error = Error{ErrorCode::unavailable, "the engine is shutting down", ""};
    request.sink->deliver(std::move(refused));
    return {};
  }
  Turn turn{now, {}};
  const SequenceId id = request.spec->id;
  base::add(config_.telemetry->prompt_tokens, request.prompt.size());
  const Open& open = open_.emplace(id, opened(request, now)).first->second;
  if (open.deadline)
    wake_at(turn, *open.deadline);
  if (open.deadline && *open.deadline <= now)
    finish(turn, id, FinishReason::deadline); // it has passed before anything began
  else
    turn.act(Admit{request.spec, request.prompt});
  return std::move(turn.actions);
}

Requests::Open Requests::opened(const Submit& request, base::TimePoint now) const {
  Open open(*config_.tokenizer, request.skip_special_tokens);
  open.spec = request.spec;
  open.sink = request.sink;
  open.tokens = request.prompt;
  for (std::size_t i = 0; i < request.prompt.size() && !open.text.begun(); ++i)
    open.text.feed(request.prompt[i]);
  open.stops = sampling::StopMatcher(request.stop);
  open.submitted = now;
  open.lanes_before = config_.telemetry->overlap.sums();
  open.failures_before = config_.telemetry->drafter_failures;
  if (request.spec->deadline)
    open.deadline = now + *request.spec->deadline;
  return open;
}

Requests::Actions Requests::cancel(SequenceId id, base::TimePoint now) {
  Turn turn{now, {}};
  finish(turn, id, FinishReason::cancelled);
  return std::move(turn.actions);
}

Requests::Actions Requests::committed(const Commits& news, base::TimePoint now) {
  Turn turn{now, {}};
  for (const Committed& of_one : news.sequences)
    take(turn, of_one);
  return std::move(turn.actions);
}

Requests::Actions Requests::failed(const Failed& news, base::TimePoint now) {
  Turn turn{now, {}};
  finish(turn, news.sequence, FinishReason::error, news.error);
  return std::move(turn.actions);
}

Requests::Actions Requests::time_passed(base::TimePoint now) {
  Turn turn{now, {}};
  if (alarm_ && now >= *alarm_)
    alarm_.reset();
  std::vector<SequenceId> late;
  for (const auto& [id, open] : open_)
    if (open.deadline && now >= *open.deadline)
      late.push_back(id);
    else if (open.deadline)
      wake_at(turn, *open.deadline);
  for (const SequenceId id : late)
    finish(turn, id, FinishReason::deadline);
  if (drain_deadline_ && now >= *drain_deadline_)
    cancel_all(turn);
  else if (drain_deadline_ && !open_.empty())
    wake_at(turn, *drain_deadline_);
  return std::move(turn.actions);
}

Requests::Actions Requests::all_again() const {
  Actions actions;
  for (const auto& [id, open] : open_)
    actions.emplace_back(Admit{open.spec, open.tokens});
  return actions;
}

Requests::Actions Requests::drain(base::Duration limit, base::TimePoint now) {
  Turn turn{now, {}};
  draining_ = true;
  if (limit.count() <= 0) {
    cancel_all(turn);
  } else if (!open_.empty()) {
    drain_deadline_ = now + limit;
    wake_at(turn, *drain_deadline_);
  }
  return std::move(turn.actions);
}

void Requests::close(base::TimePoint now, const std::string& lost) {
  Error why{ErrorCode::unavailable, "the engine was closed", ""};
  if (!lost.empty())
    why = {ErrorCode::unavailable, "the engine has ended, for an actor kept failing: " + lost,
           "see the engine's log"};
  for (auto& [id, open] : std::exchange(open_, {})) {
    Finished end = summary(open, FinishReason::error, now);
    end.error = why;
    open.sink->deliver(std::move(end));
  }
}

// ---- tokens ----

void Requests::take(Turn& turn, const Committed& news) {
  const auto at = open_.find(news.sequence);
  if (at == open_.end())
    return;
  Open& open = at->second;
  const int known = open.output() - news.first; // tokens of this message that came before
  if (known < 0) { // tokens before these have not come: the log is the truth, so begin again there
    turn.act(Abandon{news.sequence});
    turn.act(Admit{open.spec, open.tokens});
    return;
  }
  if (known > int(news.tokens.size()))
    return;
  open.speculation = news.speculation;
  open.cached_tokens = news.cached_tokens;
  if (!open.started) // a new scheduler starts it again
    open.started = news.started;
  if (!news.prompt_logprobs.empty() && known == 0)
    open.sink->deliver(
        PromptLogprobs{{open.tokens.begin(), open.tokens.begin() + open.spec->prompt_tokens},
                       news.prompt_logprobs});
  Delta delta;
  std::optional<std::string> stop;
  for (std::size_t i = std::size_t(known); i < news.tokens.size() && !stop; ++i) {
    const bool ends = news.end_of_text && i + 1 == news.tokens.size();
    stop = append(open, news.tokens[i], ends, delta);
    delta.sources.push_back(news.sources[i]);
    if (!news.logprobs.empty())
      delta.logprobs.push_back(news.logprobs[i]);
  }
  if (!delta.tokens.empty()) {
    open.last_token = turn.now;
    if (!open.first_token)
      open.first_token = open.last_token;
  }
  if (stop)
    finish(turn, news.sequence, FinishReason::stop, {}, *stop, std::move(delta));
  else if (news.end_of_text || news.length)
    finish(turn, news.sequence, news.end_of_text ? FinishReason::stop : FinishReason::length, {},
           {}, std::move(delta));
  else if (!delta.tokens.empty())
    open.sink->deliver(std::move(delta));
}

/// Returns the stop string that the token completed, if any. ends: the token is the end of the
/// text.
std::optional<std::string> Requests::append(Open& open, TokenId token, bool ends, Delta& delta) {
  open.tokens.push_back(token);
  delta.tokens.push_back(token);
  const bool may_stop = open.output() > open.spec->warping.min_tokens;
  sampling::StopMatcher::Step step = open.stops.feed(open.text.feed(token, ends), may_stop);
  delta.text += open.utf8.feed(step.text);
  return std::move(step.stop);
}

// ---- ends ----

/// Ends a request; nothing else does.
void Requests::finish(Turn& turn, SequenceId id, FinishReason reason, std::optional<Error> error,
                      std::string stop_match, Delta last) {
  const auto at = open_.find(id);
  if (at == open_.end())
    return;
  Open& open = at->second;
  if (stop_match.empty()) // text was held back for a stop string that did not come
    last.text += open.utf8.feed(open.stops.finish());
  last.text += open.utf8.finish();
  if (!last.tokens.empty() || !last.text.empty())
    open.sink->deliver(std::move(last));
  Finished end = summary(open, reason, turn.now);
  end.error = std::move(error);
  if (reason == FinishReason::stop && stop_match.empty())
    end.stop_token = open.tokens.back();
  end.stop_match = std::move(stop_match);
  open.sink->deliver(std::move(end));
  base::add(config_.telemetry->finished, 1);
  turn.act(Abandon{id});
  open_.erase(at);
}

Finished Requests::summary(const Open& open, FinishReason reason, base::TimePoint now) const {
  Finished end;
  end.reason = reason;
  end.seed = open.spec->noise.seed;
  end.usage = {open.spec->prompt_tokens, open.output(), open.cached_tokens};
  end.speculation = open.speculation;
  end.speculation.draft_disabled = config_.telemetry->draft_disabled;
  end.speculation.drafter_failures = config_.telemetry->drafter_failures - open.failures_before;
  if (int(open.tokens.size()) > config_.draft_context)
    end.speculation.draft_context_exceeded = config_.draft_context;
  const base::OverlapMeter::Sums lanes = config_.telemetry->overlap.sums();
  const auto drafting = lanes.draft - open.lanes_before.draft;
  if (drafting.count() > 0)
    end.speculation.overlap_ratio =
        base::seconds(lanes.overlapped - open.lanes_before.overlapped) / base::seconds(drafting);
  end.timing.total_seconds = base::seconds(now - open.submitted);
  end.timing.queue_seconds =
      open.started ? base::seconds(*open.started - open.submitted) : end.timing.total_seconds;
  if (open.first_token) {
    end.timing.time_to_first_token_seconds = base::seconds(*open.first_token - open.submitted);
    end.timing.decode_seconds = base::seconds(open.last_token - *open.first_token);
  }
  return end;
}

void Requests::cancel_all(Turn& turn) {
  while (!open_.empty())
    finish(turn, open_.begin()->first, FinishReason::cancelled);
}

// An alarm cannot be called off, and a request may end long before its deadline: so alarms are for
// the next deadline only, and not for long.
void Requests::wake_at(Turn& turn, base::TimePoint when) {
  if (alarm_ && *alarm_ <= when)
    return;
  alarm_ = std::min(when, turn.now + base::Duration(limits::deadline_look));
  turn.act(WakeAfter{std::max(base::Duration(*alarm_ - turn.now), base::Duration::zero())});
}

} // namespace paceline::scheduling
