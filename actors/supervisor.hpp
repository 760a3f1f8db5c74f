// The supervisor actor: starts all others, watches them, starts them again.
#pragma once

#include "actors/draft_model.hpp"
#include "actors/facade.hpp"
#include "actors/kv_cache.hpp"
#include "actors/sampler.hpp"
#include "actors/scheduler.hpp"
#include "actors/target_model.hpp"

#include <array>
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

/// A child that went down is started again after a pause that doubles; everybody is told the new
/// handles. Its count and its pause begin anew once it has run for a while. A draft that keeps
/// failing, or whose draws are inconsistent, is left out. A target that keeps failing moves to its
/// standby, if it has one. Any other child that keeps failing, or the facade going down, ends the
/// engine: the facade answers every request that is open.
class Supervisor {
public:
  using Handle = messages::SupervisorActor;
  static constexpr const char* name = "supervisor";

  Supervisor(Handle::pointer self, EngineParts parts);
  ~Supervisor();
  Handle::behavior_type make_behavior();

private:
  enum Child { facade, scheduler, draft, target, sampler, kv_cache, children };
  struct Care {
    caf::actor_addr address;
    base::TimePoint started{};
    int restarts = 0; ///< Since it last ran for long.
    base::Duration pause{};
    std::optional<base::TimePoint> due; ///< Down; to be started then.
    bool leaving = false; ///< Was told to go; until all such are down nobody is started.
  };

  void start(Child child);
  void went_down(const caf::down_msg& down);
  void restart_due();
  void disable_draft();
  void move_target();
  void dismiss(Child child, const caf::actor& actor);
  void announce();
  template <class Actor>
  Actor watch(Child child, Actor actor);

  Handle::pointer self_;
  EngineParts parts_;
  messages::ActorHandles handles_;
  std::array<Care, children> care_;
};

} // namespace paceline::actors
