// The supervisor actor: starts all others, watches them, starts them again.
#pragma once

#include "actors/draft_model.hpp"
#include "actors/facade.hpp"
#include "actors/kv_cache.hpp"
#include "actors/sampler.hpp"
#include "actors/scheduler.hpp"
#include "actors/target_model.hpp"
#include "scheduling/supervision.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace paceline::actors {

/// What each actor is started from; all of it outlives any one of them.
struct EngineParts {
  FacadeParts facade;
  SchedulerParts scheduler;
  TargetModelParts target;
  SamplerParts sampler;
  std::optional<TargetModelParts> standby; ///< On another device: the target when it moves.
  std::vector<std::shared_ptr<gpu::KvPool>> draft_pools; ///< Draft models'.
  std::optional<DraftModelParts> draft;                  ///< None: plain decoding only.
  std::size_t q_rows = 0;                                ///< That drafts may hold, all together.
  std::shared_ptr<base::Telemetry> telemetry;
  FaultOptions faults;

  /// The target's, then those of draft models.
  scheduling::PerPool<scheduling::PageManager::PoolConfig> page_pools() const;
};

/// Carries out what scheduling::Supervision decides.
class Supervisor {
public:
  using Handle = messages::SupervisorActor;
  static constexpr const char* name = "supervisor";

  Supervisor(Handle::pointer self, EngineParts parts);
  ~Supervisor();
  Handle::behavior_type make_behavior();

private:
  void went_down(const caf::down_msg& down);
  void disable_drafts();
  std::size_t stage_of(scheduling::Child child) const;
  std::string loss_of(scheduling::Child child) const;
  void carry_out(scheduling::Supervision::Actions actions);
  template <class Actor>
  Actor watch(scheduling::Child child, Actor actor);
  base::TimePoint now() const;

  // One for each action.
  void act(scheduling::StartChild& start);
  void act(scheduling::EndChild& end);
  void act(scheduling::DisableDraft& request);
  void act(scheduling::MoveTarget& move);
  void act(scheduling::Announce& news);
  void act(scheduling::WakeAfter& alarm);
  void act(scheduling::EndEngine& end);

  Handle::pointer self_;
  EngineParts parts_;
  scheduling::Supervision supervision_;
  std::vector<caf::actor> running_; ///< Actors by Child; null: down.
  messages::ActorHandles handles_;
};

} // namespace paceline::actors
