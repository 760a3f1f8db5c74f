// A device for tests: computes on the host, takes the time that an adversary says, and is watched.
#pragma once

#include "gpu/device.hpp"
#include "tests/exactness/coarse_rules.hpp"
#include "tests/exactness/pace.hpp"
#include "tests/exactness/probe.hpp"

#include <memory>

namespace paceline::testing {

struct Watch {
  std::shared_ptr<base::Timekeeper> time;
  Pace pace;
  std::uint64_t seed = 0;
  std::shared_ptr<Probe> probe;
  bool queues = false;                       ///< Holds a piece ready behind the one at work.
  std::shared_ptr<const CoarseRules> coarse; ///< Null: the CPU's own operations.
  int shards = 1; ///< Of a group's lane: each has times of its own, and a piece takes the longest.
};

/// Its lanes have no threads: all happens in the Timekeeper's callbacks. A piece is prepared and
/// run when it begins, so that its length can depend on what it drew, and completes when it ends.
/// One that stands ready behind another is run then, too. Its groups have lanes like it.
std::shared_ptr<gpu::Device> make_watched_device(Watch watch);

} // namespace paceline::testing
