// Rejection where u = 0 and u q = p, which fine noise never meets, happen all the time.
#pragma once

#include "gpu/operations.hpp"
#include "tests/sampling/window_world.hpp"

#include <span>

namespace paceline::testing {

/// Rows of which all ratios p/q below 1 are eighths, judged with u rounded down to eighths: the
/// rule is exact all the same. Some tokens are impossible for the target and likely for the draft.
World coarse_world(int length);

/// A device's kernels for such a world, of the sampling layer's core as any device's are. They
/// take the rows from the world instead of the model.
class CoarseRules {
public:
  explicit CoarseRules(World world) : world_(std::move(world)) {}
  void propose(std::span<gpu::ProposeTask> tasks) const;
  void verify(std::span<gpu::VerifyTask> tasks) const;

private:
  World world_;
};

} // namespace paceline::testing
