// The scheduler actor: an adapter around scheduling/scheduler.hpp, which decides.
#pragma once

#include "messages/interfaces.hpp"
#include "scheduling/scheduler.hpp"

namespace paceline::actors {

using SchedulerParts = scheduling::SchedulerConfig;

/// The actor. Each message is a fact for the plain scheduler, whose actions are carried out in
/// order.
class Scheduler {
public:
  using Handle = messages::SchedulerActor;
  static constexpr const char* name = "scheduler";

  Scheduler(Handle::pointer self, SchedulerParts config);
  Handle::behavior_type make_behavior();

private:
  void update(const messages::ActorHandles& handles);
  void carry_out(std::vector<scheduling::Action> actions);

  // There is one overload for each action.
  void act(scheduling::Batch& batch);
  void act(scheduling::Commits& news);
  void act(scheduling::Failed& news);
  void act(speculation::Frontiers& frontiers);
  void act(scheduling::Forget& forgotten);
  void act(scheduling::AskReserve& question);
  void act(scheduling::AskGrow& question);
  void act(scheduling::KvRelease& done);
  void act(scheduling::KvPublish& valid);
  void act(scheduling::KvReset& reset);
  void act(scheduling::AwaitWindows& wait);
  void act(scheduling::WakeAfter& alarm);
  void act(scheduling::DisableDraft& request);
  void act(scheduling::MoveTarget& request);
  void act(scheduling::EndTarget& stalled);
  void act(scheduling::EndDraft& stalled);

  base::TimePoint now() const;

  Handle::pointer self_;
  std::shared_ptr<base::Telemetry> telemetry_;
  scheduling::Scheduler scheduler_;
  messages::ActorHandles handles_;
};

} // namespace paceline::actors
