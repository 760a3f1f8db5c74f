// From one stage's lane to the next.
#pragma once

#include "gpu/lane.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace paceline::execution {

/// Where a pass leaves the lane of one stage for that of the next: no message stands in between.
/// Its arrival and what is to follow come in either order; whoever comes second submits the steps.
/// Threads: any; each member once.
class Handover {
public:
  /// From the lane of the stage before, when its step has retired.
  void arrive();
  /// From the actor whose steps follow, in this order, on `lane`. Where it takes no more work they
  /// retire as not completed.
  void expect(std::shared_ptr<gpu::Lane> lane, std::vector<std::shared_ptr<gpu::Step>> steps);

private:
  static void submit(gpu::Lane& lane, std::vector<std::shared_ptr<gpu::Step>> steps);

  std::mutex mutex_;
  bool arrived_ = false;
  std::shared_ptr<gpu::Lane> lane_; ///< Null: nobody has said yet what follows.
  std::vector<std::shared_ptr<gpu::Step>> steps_;
};

} // namespace paceline::execution
