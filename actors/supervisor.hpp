// The supervisor actor, which starts all others, watches them, and starts them again.
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

/// The parts that the actors are started from, which outlive all of them.
struct EngineParts {
  FacadeParts facade;
  SchedulerParts scheduler;
  TargetModelParts target;
  SamplerParts sampler;
  std::optional<TargetModelParts> standby; ///< The target after its move to another device.
  std::shared_ptr<gpu::KvPool> draft_pool; ///< Null: there is no draft model here.
  std::optional<DraftModelParts> draft;    ///< None: plain decoding only.
  std::size_t q_rows = 0;                  ///< Most rows for all drafts together.
  std::shared_ptr<base::Telemetry> telemetry;
  FaultOptions faults;

  /// Returns the target's pool, then that of a draft model.
  scheduling::PerPool<scheduling::PageManager::PoolConfig> page_pools() const;
};

/// The actor, which carries out what scheduling::Supervision decides.
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

  // There is one overload for each action.
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
  std::vector<caf::actor> running_; ///< Actors by Child; null: the actor is down.
  messages::ActorHandles handles_;
};

} // namespace paceline::actors
