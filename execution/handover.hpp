// The handover of a pass from one stage's lane to the next.
#pragma once

#include "gpu/lane.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::execution {

/// The place where a pass leaves the lane of one stage for that of the next, with no message in
/// between. `arrive` and `expect` come in either order; the second of them starts what follows.
/// Threads: any; each member is called once, but `come` may be left out.
class Handover {
public:
  /// Is called by the stage before's lane when the pass is about to arrive; rouses the next lane.
  void come();
  /// Is called by the stage before's lane when its step has retired.
  void arrive();
  /// Is called by the actor whose steps follow, in this order, on `lane`. If the lane takes no more
  /// work, the steps retire as not completed.
  void expect(std::shared_ptr<gpu::Lane> lane, std::vector<std::shared_ptr<gpu::Step>> steps);
  /// Is called by an actor that has something else done. `then` must not throw, and drops its hold
  /// on the pass when it is done or dropped.
  void expect(std::function<void()> then);

private:
  std::mutex mutex_;
  bool comes_ = false;
  bool arrived_ = false;
  std::shared_ptr<gpu::Lane> next_; ///< Null: the lane is not known yet, or roused already.
  std::function<void()> then_;      ///< Empty: the next steps are not known yet.
};

} // namespace paceline::execution
