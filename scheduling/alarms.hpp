// Decides when the scheduler is to be woken.
#pragma once

#include "scheduling/actions.hpp"

#include <algorithm>
#include <set>

namespace paceline::scheduling {

/// Keeps as few alarms under way as will do: whoever is woken looks at everything that has a
/// deadline, and sets the next one.
class Alarms {
public:
  void wake_at(Turn& turn, base::TimePoint when) {
    if (!pending_.empty() && *pending_.begin() <= when)
      return;
    pending_.insert(when);
    turn.act(WakeAfter{std::max(base::Duration::zero(), base::Duration(when - turn.now))});
  }
  /// Forgets the alarms up to now, which have rung.
  void rang(base::TimePoint now) { pending_.erase(pending_.begin(), pending_.upper_bound(now)); }

private:
  std::set<base::TimePoint> pending_;
};

} // namespace paceline::scheduling
