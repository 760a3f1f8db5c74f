// A simulated device on which things go wrong.
#pragma once

#include "gpu/device.hpp"
#include "tests/simulation/faults.hpp"

#include <functional>
#include <memory>
#include <random>

namespace paceline::testing {

/// What lanes were seen to do.
struct LaneNews {
  bool abandoned = false; ///< The step retired without having completed.
  bool stalled = false;   ///< And a piece of it had stalled.
};

struct FaultySettings {
  std::shared_ptr<base::Timekeeper> time;
  std::shared_ptr<Faults> faults;
  base::Duration step{}; ///< Of a piece, on average; it takes from half to one and a half of it.
  std::uint64_t seed = 0;
};

/// A `sim` device that takes as long as its steps say: how long a piece takes, whether it throws,
/// lies or finds no memory is the fault plan's to decide.
std::shared_ptr<gpu::Device> make_faulty_device(FaultySettings settings);

} // namespace paceline::testing
