// A simulated device on which things go wrong.
#pragma once

#include "gpu/device.hpp"
#include "tests/simulation/faults.hpp"

#include <functional>
#include <memory>
#include <random>

namespace paceline::testing {

/// What a lane with a piece that stood still was seen to do.
enum class LaneNews {
  abandoned, ///< Its owner let go of it.
  woke,      ///< And now the piece has ended after all.
};

struct FaultySettings {
  std::shared_ptr<base::Timekeeper> time;
  std::shared_ptr<FaultSource> faults;
  base::Duration step{}; ///< Of a piece, on average; it takes from half to one and a half of it.
  std::uint64_t seed = 0;
  bool queues = false;                     ///< Holds pieces ready behind those at work.
  bool mortal = false;                     ///< May be lost for good.
  bool steady = false;                     ///< Every piece takes just `step`.
  bool stands_still = true;                ///< Its pieces may.
  int shards = 1;                          ///< Simulated devices that it is a group of.
  std::function<void(LaneNews)> news = {}; ///< May be empty.
};

/// A `sim` device that takes as long as its steps say: how long a piece takes, whether it throws,
/// lies or finds no memory is the fault plan's to decide. A lane whose owner lets go of it goes on,
/// as real ones do, until its piece has ended: late, that piece writes to the pages it was given.
std::shared_ptr<gpu::Device> make_faulty_device(FaultySettings settings);

} // namespace paceline::testing
