#include "actors/facade.hpp"

#include "actors/limits.hpp"

#include <algorithm>

namespace paceline::actors {

using namespace messages;
using namespace scheduling;

Facade::Facade(Handle::pointer self, FacadeParts parts) : self_(self), parts_(std::move(parts)) {}

Facade::~Facade() {
  for (auto& [id, record] : records_) {
    Finished end = summary(record, FinishReason::error);
    end.error = Error{ErrorCode::unavailable, "the engine was closed", ""};
    record.sink->deliver(std::move(end));
  }
}

FacadeActor::behavior_type Facade::make_behavior() {
  return {
      [this](const Submit& request) {
        const base::Handling span(*parts_.telemetry, name, "submit");
        submit(request);
      },
      [this](const Cancel& request) {
        const base::Handling span(*parts_.telemetry, name, "cancel");
        finish(request.request, FinishReason::cancelled);
      },
      [this](const Commits& commits) {
        const base::Handling span(*parts_.telemetry, name, "commits");
        for (const Committed& news : commits.sequences)
          take(news);
      },
      [this](const Failed& failed) { finish(failed.sequence, FinishReason::error, failed.error); },
      [this](const Drain& request) -> caf::result<Drained> {
        auto promise = self_->make_response_promise<Drained>();
        drained_.push_back(promise);
        drain(request.limit);
        return promise;
      },
      [this](const ActorHandles& handles) {
        if (handles.version <= handles_version_)
          return;
        handles_version_ = handles.version;
        if (scheduler_ == handles.scheduler)
          return;
        scheduler_ = handles.scheduler;
        for (const auto& [id, record] : records_)
          tell(self_, scheduler_, Admit{record.spec, record.tokens});
      },
      [this](const Wake&) { check_deadlines(); },
  };
}

base::TimePoint Facade::now() const {
  return self_->clock().now();
}

void Facade::submit(const Submit& request) {
  if (draining_) {
    Finished refused;
    refused.reason = FinishReason::error;
    refused.seed = request.spec->noise.seed;
    refused.error = Error{ErrorCode::unavailable, "the engine is shutting down", ""};
    request.sink->deliver(std::move(refused));
    return;
  }
  Record record(*parts_.tokenizer, request.skip_special_tokens);
  record.spec = request.spec;
  record.sink = request.sink;
  record.tokens = request.prompt;
  for (std::size_t i = 0; i < request.prompt.size() && !record.text.begun(); ++i)
    record.text.feed(request.prompt[i]);
  record.stops = sampling::StopMatcher(request.stop);
  record.submitted = now();
  record.lanes_before = parts_.telemetry->overlap.sums();
  record.failures_before = parts_.telemetry->drafter_failures;
  if (request.deadline) {
    record.deadline = record.submitted + *request.deadline;
    wake_at(*record.deadline);
  }
  base::add(parts_.telemetry->prompt_tokens, request.prompt.size());
  const SequenceId id = request.spec->id;
  records_.emplace(id, std::move(record));
  if (request.deadline && request.deadline->count() <= 0)
    return finish(id, FinishReason::deadline); // it has passed before anything began
  tell(self_, scheduler_, Admit{request.spec, request.prompt});
}

void Facade::take(const Committed& news) {
  const auto at = records_.find(news.sequence);
  if (at == records_.end())
    return;
  Record& record = at->second;
  const int known = record.output() - news.first; // tokens of this message that came before
  if (known < 0) { // tokens before these have not come: the log is the truth, so begin again there
    tell(self_, scheduler_, Abandon{news.sequence});
    tell(self_, scheduler_, Admit{record.spec, record.tokens});
    return;
  }
  if (known > int(news.tokens.size()))
    return;
  record.speculation = news.speculation;
  record.cached_tokens = news.cached_tokens;
  if (!record.started) // a new scheduler starts it again
    record.started = news.started;
  if (!news.prompt_logprobs.empty() && known == 0)
    record.sink->deliver(
        PromptLogprobs{{record.tokens.begin(), record.tokens.begin() + record.spec->prompt_tokens},
                       news.prompt_logprobs});
  Delta delta;
  std::optional<std::string> stop;
  for (std::size_t i = std::size_t(known); i < news.tokens.size() && !stop; ++i) {
    const bool ends = news.end_of_text && i + 1 == news.tokens.size();
    stop = append(record, news.tokens[i], ends, delta);
    delta.sources.push_back(news.sources[i]);
    if (!news.logprobs.empty())
      delta.logprobs.push_back(news.logprobs[i]);
  }
  if (!delta.tokens.empty()) {
    record.last_token = now();
    if (!record.first_token)
      record.first_token = record.last_token;
  }
  if (stop)
    finish(news.sequence, FinishReason::stop, {}, *stop, std::move(delta));
  else if (news.end_of_text || news.length)
    finish(news.sequence, news.end_of_text ? FinishReason::stop : FinishReason::length, {}, {},
           std::move(delta));
  else if (!delta.tokens.empty())
    record.sink->deliver(std::move(delta));
}

std::optional<std::string> Facade::append(Record& record, TokenId token, bool ends, Delta& delta) {
  record.tokens.push_back(token);
  delta.tokens.push_back(token);
  const bool may_stop = record.output() > record.spec->warping.min_tokens;
  sampling::StopMatcher::Step step = record.stops.feed(record.text.feed(token, ends), may_stop);
  delta.text += record.utf8.feed(step.text);
  return std::move(step.stop);
}

/// The one place where a request ends.
void Facade::finish(SequenceId id, FinishReason reason, std::optional<Error> error,
                    std::string stop_match, Delta last) {
  const auto at = records_.find(id);
  if (at == records_.end())
    return;
  Record& record = at->second;
  if (stop_match.empty()) // held back for a stop string that did not come
    last.text += record.utf8.feed(record.stops.finish());
  last.text += record.utf8.finish();
  if (!last.tokens.empty() || !last.text.empty())
    record.sink->deliver(std::move(last));
  Finished end = summary(record, reason);
  end.error = std::move(error);
  end.stop_match = std::move(stop_match);
  record.sink->deliver(std::move(end));
  base::add(parts_.telemetry->finished, 1);
  tell(self_, scheduler_, Abandon{id});
  records_.erase(at);
  if (draining_ && records_.empty())
    drain({});
}

Finished Facade::summary(const Record& record, FinishReason reason) const {
  Finished end;
  end.reason = reason;
  end.seed = record.spec->noise.seed;
  end.usage = {record.spec->prompt_tokens, record.output(), record.cached_tokens};
  end.speculation = record.speculation;
  end.speculation.draft_left_out = parts_.telemetry->draft_left_out;
  end.speculation.drafter_failures = parts_.telemetry->drafter_failures - record.failures_before;
  if (int(record.tokens.size()) > parts_.draft_context)
    end.speculation.draft_context_exceeded = parts_.draft_context;
  const base::OverlapMeter::Sums lanes = parts_.telemetry->overlap.sums();
  const auto drafting = lanes.draft - record.lanes_before.draft;
  if (drafting.count() > 0)
    end.speculation.overlap_ratio =
        base::seconds(lanes.overlapped - record.lanes_before.overlapped) / base::seconds(drafting);
  end.timing.total_seconds = base::seconds(now() - record.submitted);
  end.timing.queue_seconds =
      record.started ? base::seconds(*record.started - record.submitted) : end.timing.total_seconds;
  if (record.first_token) {
    end.timing.time_to_first_token_seconds = base::seconds(*record.first_token - record.submitted);
    end.timing.decode_seconds = base::seconds(record.last_token - *record.first_token);
  }
  return end;
}

void Facade::drain(base::Duration limit) {
  draining_ = true;
  if (records_.empty()) {
    for (auto& promise : drained_)
      promise.deliver(Drained{});
    drained_.clear();
  } else if (limit.count() > 0) {
    drain_deadline_ = now() + limit;
    wake_at(*drain_deadline_);
  } else {
    cancel_all();
  }
}

// A timer cannot be called off, and a request may end long before its deadline: so timers are for
// the next deadline only, and not for long.
void Facade::wake_at(base::TimePoint when) {
  if (alarm_ && *alarm_ <= when)
    return;
  const base::TimePoint at = now();
  alarm_ = std::min(when, at + base::Duration(limits::deadline_look));
  tell_after(self_, std::max(base::Duration(*alarm_ - at), base::Duration::zero()), self_, Wake{});
}

void Facade::check_deadlines() {
  if (alarm_ && now() >= *alarm_)
    alarm_.reset();
  std::vector<SequenceId> late;
  for (const auto& [id, record] : records_)
    if (record.deadline && now() >= *record.deadline)
      late.push_back(id);
    else if (record.deadline)
      wake_at(*record.deadline);
  for (const SequenceId id : late)
    finish(id, FinishReason::deadline);
  if (drain_deadline_ && now() >= *drain_deadline_)
    cancel_all();
  else if (drain_deadline_ && !records_.empty())
    wake_at(*drain_deadline_);
}

void Facade::cancel_all() {
  while (!records_.empty())
    finish(records_.begin()->first, FinishReason::cancelled);
}

} // namespace paceline::actors
