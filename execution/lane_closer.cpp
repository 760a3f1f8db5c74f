#include "execution/lane_closer.hpp"

#include <condition_variable>
#include <mutex>
#include <utility>

namespace paceline::execution {

struct LaneCloser::State {
  std::mutex mutex;
  std::condition_variable closed;
  int open = 0; ///< Lanes that a thread is closing.
  bool closing = false;
};

LaneCloser::LaneCloser(bool virtual_time) : state_(std::make_shared<State>()) {
  state_->closing = virtual_time;
}

LaneCloser::~LaneCloser() {
  close();
}

bool LaneCloser::close(std::optional<std::chrono::nanoseconds> limit) {
  std::unique_lock lock(state_->mutex);
  state_->closing = true;
  const auto all_closed = [this] { return state_->open == 0; };
  if (limit)
    return state_->closed.wait_for(lock, *limit, all_closed);
  state_->closed.wait(lock, all_closed);
  return true;
}

std::shared_ptr<gpu::Lane> LaneCloser::guard(std::unique_ptr<gpu::Lane> lane) {
  // The reference is weak: at the engine's end the closer is destroyed first, and the lanes that
  // are left close themselves.
  return {lane.release(), [weak = weak_from_this()](gpu::Lane* raw) {
            std::unique_ptr<gpu::Lane> owned(raw);
            if (const auto closer = weak.lock())
              closer->close_elsewhere(std::move(owned));
          }};
}

void LaneCloser::close_elsewhere(std::unique_ptr<gpu::Lane> lane) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->closing)
      return; // The lane is closed on this thread.
    ++state_->open;
  }
  std::thread([state = state_, lane = std::move(lane)]() mutable {
    lane = nullptr; // This waits for the lane's running piece.
    const std::lock_guard lock(state->mutex);
    --state->open;
    state->closed.notify_all();
  }).detach();
}

} // namespace paceline::execution
