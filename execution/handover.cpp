#include "execution/handover.hpp"

#include <utility>

namespace paceline::execution {

void Handover::arrive() {
  std::shared_ptr<gpu::Lane> lane;
  std::vector<std::shared_ptr<gpu::Step>> steps;
  {
    const std::lock_guard lock(mutex_);
    arrived_ = true;
    lane.swap(lane_);
    steps.swap(steps_); // they hold the pass, which holds this
  }
  if (lane)
    submit(*lane, std::move(steps));
}

void Handover::expect(std::shared_ptr<gpu::Lane> lane,
                      std::vector<std::shared_ptr<gpu::Step>> steps) {
  {
    const std::lock_guard lock(mutex_);
    if (!arrived_) {
      lane_ = std::move(lane);
      steps_ = std::move(steps);
      return;
    }
  }
  submit(*lane, std::move(steps));
}

void Handover::submit(gpu::Lane& lane, std::vector<std::shared_ptr<gpu::Step>> steps) {
  for (auto& step : steps)
    if (!lane.submit(step))
      step->retire(
          {.completed = false,
           .error =
               Error{ErrorCode::unavailable, "the lane " + lane.name() + " takes no more work", {}},
           .begin = {},
           .end = {},
           .busy = {}});
}

} // namespace paceline::execution
