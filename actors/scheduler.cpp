#include "actors/scheduler.hpp"

#include "scheduling/contracts.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

namespace paceline::actors {

using namespace messages;
using namespace scheduling;

namespace {

/// Time after which the cache manager counts as gone: it answers within microseconds.
constexpr std::chrono::seconds grant_timeout{5};

template <class Actor>
std::uint64_t id_of(const Actor& actor) {
  return actor ? actor->id() : 0;
}

/// Returns the youngest id of actors that do one thing together, which a successor changes; 0 while
/// one of them is missing.
template <class Actor>
std::uint64_t id_of(const std::vector<Actor>& actors) {
  std::uint64_t youngest = 0;
  for (const Actor& actor : actors) {
    if (!actor)
      return 0;
    youngest = std::max(youngest, id_of(actor));
  }
  return youngest;
}

Peers peers_of(const ActorHandles& handles) {
  return {.version = handles.version,
          .draft = id_of(handles.draft),
          .target = id_of(handles.stages),
          .sampler = id_of(handles.sampler),
          .kv_cache = id_of(handles.kv_cache),
          .lost = handles.lost};
}

} // namespace

Scheduler::Scheduler(Handle::pointer self, SchedulerParts config)
    : self_(self), telemetry_(config.telemetry), scheduler_(std::move(config)) {}

SchedulerActor::behavior_type Scheduler::make_behavior() {
  return {
      [this](const Admit& request) {
        const base::Handling span(*telemetry_, name, "admit");
        carry_out(scheduler_.admit(request, now()));
      },
      [this](const Abandon& request) {
        const base::Handling span(*telemetry_, name, "abandon");
        carry_out(scheduler_.abandon(request.sequence, now()));
      },
      [this](const Verdicts& verdicts) {
        const base::Handling span(*telemetry_, name, "verdicts");
        check_contract(verdicts);
        carry_out(scheduler_.judged(verdicts, now()));
      },
      [this](const WindowsReady& ready) {
        const base::Handling span(*telemetry_, name, "windows");
        carry_out(scheduler_.windows_ready(ready.ticket, now()));
      },
      [this](const ActorHandles& handles) { update(handles); },
      [this](const Wake&) { carry_out(scheduler_.time_passed(now())); },
  };
}

base::TimePoint Scheduler::now() const {
  return self_->clock().now();
}

void Scheduler::update(const ActorHandles& handles) {
  if (handles.version <= handles_.version)
    return;
  handles_ = handles;
  carry_out(scheduler_.peers_changed(peers_of(handles), now()));
}

void Scheduler::carry_out(std::vector<Action> actions) {
  for (Action& action : actions)
    std::visit([this](auto& what) { act(what); }, action);
}

// ---- messages ----

void Scheduler::act(Batch& batch) {
  tell(self_, handles_.stages.front(), std::move(batch));
}
void Scheduler::act(Commits& news) {
  check_contract(news);
  tell(self_, handles_.facade, std::move(news));
}
void Scheduler::act(Failed& news) {
  tell(self_, handles_.facade, std::move(news));
}
void Scheduler::act(speculation::Frontiers& frontiers) {
  tell(self_, handles_.draft, std::move(frontiers));
}
void Scheduler::act(Forget& forgotten) {
  tell(self_, handles_.draft, forgotten);
}
void Scheduler::act(KvRelease& done) {
  tell(self_, handles_.kv_cache, std::move(done));
}
void Scheduler::act(KvPublish& valid) {
  tell(self_, handles_.kv_cache, std::move(valid));
}
void Scheduler::act(KvReset& reset) {
  tell(self_, handles_.kv_cache, reset);
}
void Scheduler::act(DisableDraft& request) {
  tell(self_, handles_.supervisor, request);
}
void Scheduler::act(MoveTarget& request) {
  tell(self_, handles_.supervisor, request);
}
void Scheduler::act(WakeAfter& alarm) {
  tell_after(self_, alarm.delay, self_, Wake{});
}

// ---- questions, gates, ends ----

void Scheduler::act(AskReserve& question) {
  const auto answer = [this, id = question.wanted.sequence,
                       asked = question.asked](const KvGrant& grant) {
    base::add(telemetry_->messages, 1);
    carry_out(scheduler_.reserved(id, asked, grant, now()));
  };
  ask(self_, handles_.kv_cache, grant_timeout, std::move(question.wanted))
      .then(answer, [answer](const caf::error&) { answer({}); });
}

void Scheduler::act(AskGrow& question) {
  const auto answer = [this, id = question.wanted.sequence,
                       residency = question.residency](const KvGrant& grant) {
    base::add(telemetry_->messages, 1);
    carry_out(scheduler_.grown(id, residency, grant, now()));
  };
  ask(self_, handles_.kv_cache, grant_timeout, std::move(question.wanted))
      .then(answer, [answer](const caf::error&) { answer({}); });
}

void Scheduler::act(AwaitWindows& wait) {
  const auto me = caf::actor_cast<SchedulerActor>(self_);
  const auto gate = std::make_shared<speculation::Gate>(
      int(wait.windows.size()), [me, ticket = wait.ticket] { tell(me, WindowsReady{ticket}); });
  for (const auto& [chain, position] : wait.windows)
    chain->notify_at(position, gate);
}

void Scheduler::act(EndTarget&) {
  for (const TargetActor& stage : handles_.stages)
    fail(caf::actor_cast<caf::actor_addr>(stage));
}
void Scheduler::act(EndDraft&) {
  fail(caf::actor_cast<caf::actor_addr>(handles_.draft));
}

} // namespace paceline::actors
