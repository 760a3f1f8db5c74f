// Which of the engine's actors are started, ended and started again, and when. Plain logic: facts
// in, actions out; no actor and no clock.
#pragma once

#include "paceline/engine.hpp"
#include "scheduling/actions.hpp"
#include "scheduling/draft_health.hpp"

#include <cstddef>
#include <optional>
#include <variant>
#include <vector>

namespace paceline::scheduling {

enum class Role { facade, scheduler, draft, target, sampler, kv_cache };

/// By its place among those that are watched.
using Child = std::size_t;

struct StartChild {
  Child child = 0;
};
struct EndChild {
  Child child = 0;
};
/// Everybody is told who is there now.
struct Announce {};
/// All end.
struct EndEngine {};

/// A child that went down is started again after a pause that doubles; then everybody is told. Its
/// count and its pause begin anew once it has run for a while. A draft that keeps failing, or whose
/// draws are inconsistent, is disabled. A target that keeps failing moves to its standby, if it has
/// one. Any other child that keeps failing, or the facade going down, ends the engine.
///
/// Each call takes in one fact at `now`, and returns what is to be done about it, in order.
/// Threads: one.
class Supervision {
public:
  struct Config {
    std::vector<Role> children; ///< In the order in which they are started.
    FaultOptions faults;
    bool has_standby = false; ///< Another device for the target, once.
    /// Those on other machines, which come back some day: a draft is never disabled for failing,
    /// nor does a stage of the target end the engine. With such a stage its pages are lost, so that
    /// the KV-cache manager begins anew, too.
    std::vector<Child> returning = {};
  };
  /// DisableDraft: it is down, or it is ended next, and is not used again. MoveTarget: the target
  /// is made for its standby from now on.
  using Action =
      std::variant<StartChild, EndChild, DisableDraft, MoveTarget, Announce, WakeAfter, EndEngine>;
  using Actions = std::vector<Action>;

  explicit Supervision(Config config);

  /// All of them, for the first time.
  Actions start(base::TimePoint now);
  Actions went_down(Child child, base::TimePoint now);
  /// A pause has passed.
  Actions time_passed(base::TimePoint now);
  /// Whether it is down or not.
  Actions disable(Child draft);
  /// Pages, and the rows that drafts write for the verification, belong to a device: whoever has to
  /// do with either ends, and all are down before the first of them begins on the other. A draft
  /// whose own device failed as well is disabled in its turn. Without a standby nothing happens.
  Actions move_target();

  const std::vector<Role>& roles() const { return config_.children; }

private:
  using Turn = TurnOf<Action>;
  struct Care {
    bool running = false;
    base::TimePoint started{};
    FailureCount failures; ///< Since it last ran for long.
    base::Duration pause{};
    std::optional<base::TimePoint> due{}; ///< Down; to be started then.
    bool leaving = false;  ///< Was told to go; until all such are down nobody is started.
    bool disabled = false; ///< A draft, for good.
  };

  bool keeps_failing(Child child, base::TimePoint now);
  bool returns(Child child) const;
  void end_caches(Turn& turn);
  void start(Turn& turn, Child child);
  void start_due(Turn& turn);
  void disable(Turn& turn, Child draft);
  void move_target(Turn& turn);

  Config config_;
  std::vector<Care> care_; // by Child
};

} // namespace paceline::scheduling
