// Decides which of the engine's actors are started, ended and started again, and when. It is plain
// logic: facts in, actions out; no actor and no clock.
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

/// A child's place among those that are watched.
using Child = std::size_t;

struct StartChild {
  Child child = 0;
};
struct EndChild {
  Child child = 0;
};
/// Tells everybody who is there now.
struct Announce {};
/// Ends all actors.
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
    std::vector<Role> children; ///< Children in the order in which they are started.
    FaultOptions faults;
    bool has_standby = false; ///< Another device for the target, once.
    /// Children on other machines, which come back some day: a draft is never disabled for failing,
    /// nor does a stage of the target end the engine. The pages of such a stage are lost with it,
    /// so that the KV-cache manager begins anew, too.
    std::vector<Child> returning = {};
  };
  /// DisableDraft: the draft is down, or is ended next, and is not used again. MoveTarget: the
  /// target is made for its standby from now on.
  using Action =
      std::variant<StartChild, EndChild, DisableDraft, MoveTarget, Announce, WakeAfter, EndEngine>;
  using Actions = std::vector<Action>;

  explicit Supervision(Config config);

  /// Starts all of them, for the first time.
  Actions start(base::TimePoint now);
  Actions went_down(Child child, base::TimePoint now);
  /// Starts children whose pause has passed.
  Actions time_passed(base::TimePoint now);
  /// Disables a draft, whether it is down or not.
  Actions disable(Child draft);
  /// Moves the target to its standby. Pages, and the rows that drafts write for the verification,
  /// belong to a device: whoever uses either ends, and all are down before the first of them begins
  /// on the other device. A draft whose own device failed as well is disabled in its turn. Nothing
  /// happens without a standby.
  Actions move_target();

  const std::vector<Role>& roles() const { return config_.children; }

private:
  using Turn = TurnOf<Action>;
  struct Care {
    bool running = false;
    base::TimePoint started{};
    FailureCount failures; ///< Failures since it last ran for long.
    base::Duration pause{};
    std::optional<base::TimePoint> due{}; ///< Time of its next start, while it is down.
    bool leaving = false;  ///< Told to go; nobody is started until all such are down.
    bool disabled = false; ///< The draft is disabled for good.
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
