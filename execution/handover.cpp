#include "execution/handover.hpp"

#include <utility>

namespace paceline::execution {
namespace {

void submit(gpu::Lane& lane, const std::vector<std::shared_ptr<gpu::Step>>& steps) {
  for (const auto& step : steps)
    if (!lane.submit(step))
      step->retire(
          {.completed = false,
           .error =
               Error{ErrorCode::unavailable, "the lane " + lane.name() + " takes no more work", {}},
           .begin = {},
           .end = {},
           .busy = {}});
}

} // namespace

void Handover::come() {
  std::shared_ptr<gpu::Lane> next;
  {
    const std::lock_guard lock(mutex_);
    comes_ = true;
    next.swap(next_);
  }
  if (next)
    next->rouse();
}

void Handover::arrive() {
  std::function<void()> then;
  {
    const std::lock_guard lock(mutex_);
    arrived_ = true;
    next_ = nullptr;
    then.swap(then_); // It holds the pass, which holds this.
  }
  if (then)
    then();
}

void Handover::expect(std::shared_ptr<gpu::Lane> lane,
                      std::vector<std::shared_ptr<gpu::Step>> steps) {
  bool comes = false;
  {
    const std::lock_guard lock(mutex_);
    comes = comes_ && !arrived_;
    if (!comes_ && !arrived_)
      next_ = lane;
  }
  if (comes)
    lane->rouse();
  expect([lane = std::move(lane), steps = std::move(steps)] { submit(*lane, steps); });
}

void Handover::expect(std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    if (!arrived_) {
      then_ = std::move(then);
      return;
    }
  }
  then();
}

} // namespace paceline::execution
