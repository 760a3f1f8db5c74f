#include "actors/supervisor.hpp"

#include "actors/other_machines.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace paceline::actors {

using namespace messages;
using namespace scheduling;

namespace {

/// Returns the roles of all children, the facade first.
std::vector<Role> children_of(const EngineParts& parts) {
  std::vector<Role> roles{Role::facade, Role::scheduler};
  if (parts.draft)
    roles.push_back(Role::draft);
  roles.insert(roles.end(), parts.target.stages(), Role::target);
  roles.insert(roles.end(), {Role::sampler, Role::kv_cache});
  return roles;
}

const char* name_of(Role role) {
  switch (role) {
  case Role::facade: return Facade::name;
  case Role::scheduler: return Scheduler::name;
  case Role::draft: return DraftModel::name;
  case Role::target: return TargetModel::name;
  case Role::sampler: return Sampler::name;
  case Role::kv_cache: return KvCache::name;
  }
  return "";
}

template <class Host>
DraftActor start_draft(Host& host, const DraftModelParts& parts,
                       const std::shared_ptr<gpu::Device>& target) {
  if (parts.remote)
    return parts.remote->spawn(host, target);
  return spawn<DraftModel>(host, parts, target);
}

template <class Host>
TargetActor start_stage(Host& host, const TargetModelParts& parts, std::size_t stage,
                        std::uint64_t named_by) {
  if (const auto& remote = parts.stage(stage).remote)
    return remote->spawn(host, parts, stage, named_by);
  return spawn<TargetModel>(host, parts, stage);
}

/// Returns the children on other machines, which come back some day.
std::vector<Child> on_other_machines(const EngineParts& parts) {
  const std::vector<Role> roles = children_of(parts);
  std::vector<Child> there;
  std::size_t stage = 0;
  for (Child child = 0; child < roles.size(); ++child)
    if ((roles[child] == Role::draft && parts.draft->remote) ||
        (roles[child] == Role::target && parts.target.stage(stage++).remote))
      there.push_back(child);
  return there;
}

} // namespace

PerPool<PageManager::PoolConfig> EngineParts::page_pools() const {
  const bool has_forks =
      (scheduler.stages > 1 && scheduler.has_draft) || scheduler.policy.tree_rows_max > 0;
  PerPool<PageManager::PoolConfig> pools{{target.pool, scheduler.attention_window, has_forks}};
  if (draft_pool)
    pools.push_back({.pages = draft_pool});
  return pools;
}

Supervisor::Supervisor(Handle::pointer self, EngineParts parts)
    : self_(self), parts_(std::move(parts)),
      supervision_({children_of(parts_), parts_.faults, parts_.standby.has_value(),
                    on_other_machines(parts_)}),
      running_(supervision_.roles().size()) {
  handles_.supervisor = caf::actor_cast<Handle>(self_);
  handles_.stages.resize(parts_.target.stages());
  self_->set_down_handler([this](const caf::down_msg& down) { went_down(down); });
  carry_out(supervision_.start(now()));
}

Supervisor::~Supervisor() {
  // The facade is last: by then nothing more can be committed, and it answers the requests that are
  // open.
  std::rotate(running_.begin(), running_.begin() + 1, running_.end());
  for (const caf::actor& actor : running_)
    if (actor)
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
}

SupervisorActor::behavior_type Supervisor::make_behavior() {
  return {
      [this](const Ping&) { return handles_; },
      [this](const DisableDraft&) { disable_drafts(); },
      [this](const MoveTarget&) { carry_out(supervision_.move_target()); },
      [this](const Wake&) { carry_out(supervision_.time_passed(now())); },
  };
}

base::TimePoint Supervisor::now() const {
  return self_->clock().now();
}

void Supervisor::disable_drafts() {
  for (Child child = 0; child < running_.size(); ++child)
    if (supervision_.roles()[child] == Role::draft)
      carry_out(supervision_.disable(child));
}

void Supervisor::went_down(const caf::down_msg& down) {
  const auto at = std::ranges::find_if(running_, [&](const caf::actor& actor) {
    return actor && caf::actor_cast<caf::actor_addr>(actor) == down.source;
  });
  if (at == running_.end())
    return;
  *at = nullptr;
  base::add(parts_.telemetry->restarts, 1);
  const auto child = Child(at - running_.begin());
  const Role role = supervision_.roles()[child];
  if (down.reason != caf::exit_reason::user_shutdown && role != Role::draft)
    handles_.lost = loss_of(child);
  if (role == Role::target && parts_.target.stages() > 1)
    handles_.stages[stage_of(child)] = nullptr; // Nothing is sent to the other stages meanwhile.
  if (role == Role::draft) {
    handles_.draft = nullptr;
    if (parts_.draft->is_disabled && parts_.draft->is_disabled())
      carry_out(supervision_.disable(child));
  }
  carry_out(supervision_.went_down(child, now()));
}

/// Returns why the child was lost, for requests that end because of it.
std::string Supervisor::loss_of(Child child) const {
  const Role role = supervision_.roles()[child];
  if (role == Role::target)
    if (const auto& remote = parts_.target.stage(stage_of(child)).remote)
      if (std::string why = remote->take_loss(); !why.empty())
        return why;
  return fmt::format("the {} died", name_of(role));
}

/// Returns the stage of a child with the target's role. These children stand in the order of the
/// stages.
std::size_t Supervisor::stage_of(Child child) const {
  const auto& roles = supervision_.roles();
  return std::size_t(
      std::count(roles.begin(), roles.begin() + std::ptrdiff_t(child), Role::target));
}

void Supervisor::carry_out(Supervision::Actions actions) {
  for (auto& action : actions)
    std::visit([this](auto& what) { act(what); }, action);
}

template <class Actor>
Actor Supervisor::watch(Child child, Actor actor) {
  self_->monitor(actor);
  running_[child] = caf::actor_cast<caf::actor>(actor);
  return actor;
}

void Supervisor::act(StartChild& start) {
  const Child child = start.child;
  switch (supervision_.roles()[child]) {
  case Role::facade: handles_.facade = watch(child, spawn<Facade>(*self_, parts_.facade)); break;
  case Role::scheduler:
    parts_.scheduler.has_standby = parts_.standby.has_value();
    handles_.scheduler = watch(child, spawn<Scheduler>(*self_, parts_.scheduler));
    ++parts_.scheduler.incarnation;
    break;
  case Role::draft:
    handles_.draft =
        watch(child, start_draft(*self_, *parts_.draft, parts_.target.last_stage().device));
    break;
  case Role::target: {
    const std::size_t stage = stage_of(child);
    handles_.stages[stage] =
        watch(child, start_stage(*self_, parts_.target, stage, handles_.version + 1));
    break;
  }
  case Role::sampler:
    handles_.sampler = watch(child, spawn<Sampler>(*self_, parts_.sampler));
    break;
  case Role::kv_cache:
    handles_.kv_cache = watch(
        child, spawn<KvCache>(*self_, PageManager::Config{parts_.page_pools(), parts_.telemetry}));
    break;
  }
}

void Supervisor::act(EndChild& end) {
  if (const caf::actor& child = running_[end.child])
    caf::anon_send_exit(child, caf::exit_reason::user_shutdown);
}

void Supervisor::act(DisableDraft&) {
  parts_.telemetry->draft_disabled = true;
}

void Supervisor::act(MoveTarget&) {
  parts_.telemetry->log.write(
      LogLevel::warning, fmt::format("{} keeps failing: the target goes on on {}",
                                     parts_.target.device->name(), parts_.standby->device->name()));
  parts_.target = *std::exchange(parts_.standby, std::nullopt);
  parts_.telemetry->target_moved = true;
}

void Supervisor::act(Announce&) {
  ++handles_.version;
  for (const TargetActor& stage : handles_.stages)
    if (stage)
      tell(self_, stage, handles_);
  tell(self_, handles_.sampler, handles_);
  tell(self_, handles_.scheduler, handles_);
  tell(self_, handles_.facade, handles_);
}

void Supervisor::act(WakeAfter& alarm) {
  tell_after(self_, alarm.delay, self_, Wake{});
}

void Supervisor::act(EndEngine&) {
  ++handles_.version;
  handles_.ended = true;
  tell_urgently(self_, handles_.facade, handles_); // It must know them before it goes.
  self_->quit(caf::exit_reason::user_shutdown);
}

} // namespace paceline::actors
