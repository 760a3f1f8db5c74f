// What a simulated device charges for its work.
#pragma once

#include "base/clock.hpp"
#include "gpu/lane.hpp"
#include "paceline/error.hpp"

#include <string>
#include <string_view>

namespace paceline::gpu::sim {

/// A pass through the model takes `step` and a little more for each row past the first. Judging
/// (Work::Kind::verify) is part of the pass and costs nothing of its own.
struct Profile {
  std::string name;
  base::Duration step{};
  base::Duration per_row{};         ///< decode, draft
  base::Duration per_prefill_row{}; ///< prefill

  base::Duration latency(const Work& work) const;
};

/// A profile of the table in profile.cpp, or latencies: "14.1ms", "250us", "14.1ms+0.2ms/row".
Result<Profile> parse_profile(std::string_view text);

} // namespace paceline::gpu::sim
