#include "apps/laboratory/load/engine_target.hpp"

#include "apps/console/lookups.hpp"
#include "base/clock.hpp"

#include <cmath>
#include <utility>

namespace paceline::apps::load {
namespace {

/// Seconds that no run reaches, in place of infinity.
constexpr double far_seconds = 1e8;

} // namespace

EngineTarget::EngineTarget(Engine& engine, Request request, Time time)
    : engine_(engine), request_(std::move(request)), time_(time) {}

EngineTarget::~EngineTarget() {
  cancel();
}

void EngineTarget::begin_run() {
  request_.draft_scope = measured_scope("run", ++runs_);
}

double EngineTarget::now() const {
  return base::seconds(engine_.now());
}

void EngineTarget::send(std::size_t item, const Item& what) {
  Request request = request_;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&what.prompt))
    request.prompt_tokens = *ids;
  else
    request.prompt = std::get<std::string>(what.prompt);
  request.max_tokens = what.max_tokens;
  auto stream = engine_.submit(request);
  if (!stream) {
    events_.push_back({.kind = Event::Kind::failed,
                       .item = item,
                       .seconds = now(),
                       .reason = stream.error().message});
    return;
  }
  Stream& kept = streams_.emplace(item, std::move(*stream)).first->second;
  kept.on_ready([bell = bell_, item] { bell->ring(item); });
}

std::optional<Event> EngineTarget::next(std::optional<double> until) {
  if (events_.empty() && !collect())
    await_news(until);
  if (events_.empty())
    return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

/// Waits until there are events, or it is time, or somebody calls `wake`.
void EngineTarget::await_news(std::optional<double> until) {
  if (streams_.empty() && !until)
    return;
  const double end = until.value_or(far_seconds);
  if (time_ == Time::virtual_clock) {
    engine_.run_until([this] { return collect() || bell_->take_waked(); },
                      base::Duration(std::int64_t(std::ceil(1e9 * end))));
    return;
  }
  while (!collect() && now() < end && !bell_->take_waked()) {
    std::unique_lock lock(bell_->mutex);
    bell_->rung.wait_for(lock, base::from_seconds(end - now()),
                         [this] { return !bell_->items.empty() || bell_->waked; });
  }
}

void EngineTarget::Bell::ring(std::size_t item) {
  const std::lock_guard lock(mutex);
  items.push_back(item);
  rung.notify_one();
}

void EngineTarget::Bell::wake() {
  const std::lock_guard lock(mutex);
  waked = true;
  rung.notify_one();
}

std::vector<std::size_t> EngineTarget::Bell::take_items() {
  const std::lock_guard lock(mutex);
  return std::exchange(items, {});
}

bool EngineTarget::Bell::take_waked() {
  const std::lock_guard lock(mutex);
  return std::exchange(waked, false);
}

/// Takes the events of streams that announced some. Returns whether there are events.
bool EngineTarget::collect() {
  for (const std::size_t item : bell_->take_items()) {
    const auto at = streams_.find(item);
    if (at == streams_.end())
      continue;
    bool ended = false;
    while (auto event = at->second.try_next()) {
      take(item, *event);
      ended = std::holds_alternative<Finished>(*event);
    }
    if (ended)
      streams_.erase(at);
  }
  return !events_.empty();
}

void EngineTarget::take(std::size_t item, const paceline::Event& event) {
  if (const auto* delta = std::get_if<Delta>(&event)) {
    if (!delta->tokens.empty())
      events_.push_back({.kind = Event::Kind::tokens, .item = item, .seconds = now()});
  } else if (const auto* end = std::get_if<Finished>(&event)) {
    const bool failed = end->reason != FinishReason::stop && end->reason != FinishReason::length;
    events_.push_back({.kind = failed ? Event::Kind::failed : Event::Kind::done,
                       .item = item,
                       .seconds = now(),
                       .prompt_tokens = end->usage.prompt_tokens,
                       .output_tokens = end->usage.completion_tokens,
                       .rounds = end->speculation.rounds,
                       .reason = end->error ? end->error->message
                                            : std::string(failed ? to_string(end->reason) : "")});
  }
}

void EngineTarget::wake() {
  bell_->wake();
}

void EngineTarget::cancel() {
  streams_.clear();
  events_.clear();
}

std::optional<TargetState> EngineTarget::state() {
  const Metrics metrics = engine_.metrics();
  TargetState state{.running = double(metrics.running),
                    .waiting = double(metrics.waiting),
                    .preemptions = double(metrics.preemptions),
                    .judged = double(metrics.judged),
                    .accepted = double(metrics.accepted),
                    .window_tokens = double(metrics.window_tokens),
                    .accepted_by_position = {}};
  state.accepted_by_position.assign(metrics.accepted_by_position.begin(),
                                    metrics.accepted_by_position.end());
  return state;
}

} // namespace paceline::apps::load
