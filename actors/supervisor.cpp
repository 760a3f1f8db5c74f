#include "actors/supervisor.hpp"

#include <algorithm>
#include <cstdio>

namespace paceline::actors {

using namespace messages;
using namespace scheduling;

PerPool<PageManager::PoolConfig> EngineParts::page_pools() const {
  PerPool<PageManager::PoolConfig> pools{{target.pool, scheduler.attention_window}};
  for (const auto& pool : draft_pools)
    pools.push_back({pool, 0});
  return pools;
}

Supervisor::Supervisor(Handle::pointer self, EngineParts parts)
    : self_(self), parts_(std::move(parts)) {
  handles_.supervisor = caf::actor_cast<Handle>(self_);
  handles_.drafts.resize(parts_.draft ? 1 : 0);
  handles_.stages.resize(1);
  self_->set_down_handler([this](const caf::down_msg& down) { went_down(down); });
  for (int child = 0; child < children; ++child)
    start(Child(child));
  announce();
}

Supervisor::~Supervisor() {
  // The facade last: by then nothing more can be committed, and it answers what is open.
  for (const auto& actor : {caf::actor_cast<caf::actor>(handles_.scheduler),
                            caf::actor_cast<caf::actor>(handles_.drafts.front()),
                            caf::actor_cast<caf::actor>(handles_.stages.front()),
                            caf::actor_cast<caf::actor>(handles_.sampler),
                            caf::actor_cast<caf::actor>(handles_.kv_cache),
                            caf::actor_cast<caf::actor>(handles_.facade)})
    if (actor)
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
}

SupervisorActor::behavior_type Supervisor::make_behavior() {
  return {
      [this](const Ping&) { return handles_; },
      [this](const DisableDraft&) { disable_draft(); },
      [this](const MoveTarget&) { move_target(); },
      [this](const Wake&) { restart_due(); },
  };
}

template <class Actor>
Actor Supervisor::watch(Child child, Actor actor) {
  self_->monitor(actor);
  care_[child].address = caf::actor_cast<caf::actor_addr>(actor);
  care_[child].started = self_->clock().now();
  return actor;
}

void Supervisor::start(Child child) {
  switch (child) {
  case facade: handles_.facade = watch(child, spawn<Facade>(*self_, parts_.facade)); break;
  case scheduler:
    parts_.scheduler.has_standby = parts_.standby.has_value();
    handles_.scheduler = watch(child, spawn<Scheduler>(*self_, parts_.scheduler));
    ++parts_.scheduler.incarnation;
    break;
  case draft:
    if (parts_.draft)
      handles_.drafts.front() =
          watch(child, spawn<DraftModel>(*self_, *parts_.draft, parts_.target.device));
    break;
  case target:
    handles_.stages.front() = watch(child, spawn<TargetModel>(*self_, parts_.target));
    break;
  case sampler: handles_.sampler = watch(child, spawn<Sampler>(*self_, parts_.sampler)); break;
  case kv_cache:
    handles_.kv_cache = watch(
        child, spawn<KvCache>(*self_, PageManager::Config{parts_.page_pools(), parts_.telemetry}));
    break;
  case children: break;
  }
}

void Supervisor::announce() {
  ++handles_.version;
  tell(self_, handles_.stages.front(), handles_);
  tell(self_, handles_.sampler, handles_);
  tell(self_, handles_.scheduler, handles_);
  tell(self_, handles_.facade, handles_);
}

void Supervisor::went_down(const caf::down_msg& down) {
  const auto at = std::find_if(care_.begin(), care_.end(),
                               [&](const Care& care) { return care.address == down.source; });
  if (at == care_.end())
    return;
  const auto child = Child(at - care_.begin());
  const base::TimePoint now = self_->clock().now();
  at->address = {};
  base::add(parts_.telemetry->restarts, 1);
  if (now - at->started >= parts_.faults.restarts_forgotten) {
    at->restarts = 0;
    at->pause = {};
  }
  const bool told_to = std::exchange(at->leaving, false);
  const bool keeps_failing = !told_to && ++at->restarts > parts_.faults.restarts_max;
  if (keeps_failing && child == target && parts_.standby) {
    move_target();
  } else if (child == facade || (keeps_failing && child != draft)) {
    self_->quit(caf::exit_reason::user_shutdown);
    return;
  }
  if (child == draft) { // nobody waits for it meanwhile
    handles_.drafts.front() = nullptr;
    announce();
    if (keeps_failing || (parts_.draft && parts_.draft->hopeless && parts_.draft->hopeless()))
      disable_draft();
    if (!parts_.draft)
      return restart_due(); // those who had to wait for it
  }
  at->pause = std::clamp<base::Duration>(at->pause * 2, parts_.faults.restart_pause,
                                         parts_.faults.restart_pause_max);
  at->due = now + at->pause;
  tell_after(self_, at->pause, self_, Wake{});
}

void Supervisor::disable_draft() {
  parts_.draft.reset();
  parts_.telemetry->draft_left_out = true;
  if (handles_.drafts.front()) // the rest follows when it is down
    caf::anon_send_exit(handles_.draft, caf::exit_reason::user_shutdown);
}

/// Pages, and the rows that the draft writes for the verification, belong to a device: whoever has
/// to do with either ends, and all are down before the first of them begins on the other. A draft
/// whose own device failed as well is left out in its turn.
void Supervisor::move_target() {
  if (!parts_.standby)
    return;
  std::fprintf(stderr, "paceline: %s keeps failing: the target goes on on %s\n",
               parts_.target.device->name().c_str(), parts_.standby->device->name().c_str());
  parts_.target = *std::exchange(parts_.standby, std::nullopt);
  parts_.telemetry->target_moved = true;
  dismiss(scheduler, caf::actor_cast<caf::actor>(handles_.scheduler));
  dismiss(draft, caf::actor_cast<caf::actor>(handles_.drafts.front()));
  dismiss(target, caf::actor_cast<caf::actor>(handles_.stages.front()));
  dismiss(kv_cache, caf::actor_cast<caf::actor>(handles_.kv_cache));
}

void Supervisor::dismiss(Child child, const caf::actor& actor) {
  Care& care = care_[child];
  care.restarts = 0;
  care.pause = {};
  care.leaving = bool(care.address);
  if (care.leaving)
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
}

void Supervisor::restart_due() {
  if (std::ranges::any_of(care_, &Care::leaving))
    return; // whoever is the last of them comes here, too
  bool any = false;
  for (int child = 0; child < children; ++child) {
    Care& care = care_[std::size_t(child)];
    if (!care.due || base::TimePoint(self_->clock().now()) < *care.due)
      continue;
    care.due.reset();
    start(Child(child));
    any = true;
  }
  if (any)
    announce();
}

} // namespace paceline::actors
