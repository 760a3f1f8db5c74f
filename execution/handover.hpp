// From one stage's lane to the next.
#pragma once

#include "gpu/lane.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::execution {

/// Where a pass leaves the lane of one stage for that of the next: no message stands in between.
/// Its arrival and what is to follow come in either order; whoever comes second does that.
/// Threads: any; each member once, but `come`, which may be left out.
class Handover {
public:
  /// From the lane of the stage before, when the pass is about to arrive: rouses the next one's.
  void come();
  /// From there, when its step has retired.
  void arrive();
  /// From the actor whose steps follow, in this order, on `lane`. Where it takes no more work they
  /// retire as not completed.
  void expect(std::shared_ptr<gpu::Lane> lane, std::vector<std::shared_ptr<gpu::Step>> steps);
  /// From the actor that has something else done, which must not throw, and lets go of what holds
  /// the pass when it is done or dropped.
  void expect(std::function<void()> then);

private:
  std::mutex mutex_;
  bool comes_ = false;
  bool arrived_ = false;
  std::shared_ptr<gpu::Lane> next_; ///< Null: not known, or roused.
  std::function<void()> then_;      ///< Empty: nobody has said yet what follows.
};

} // namespace paceline::execution
