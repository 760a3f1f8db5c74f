#include "actors/lane_reaper.hpp"

#include <utility>

namespace paceline::actors {

LaneReaper::LaneReaper(bool at_once) : closing_(at_once) {
  if (!at_once)
    thread_ = std::thread([this] { work(); });
}

LaneReaper::~LaneReaper() {
  close();
}

void LaneReaper::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  news_.notify_one();
  if (thread_.joinable())
    thread_.join();
}

std::shared_ptr<gpu::Lane> LaneReaper::guard(std::unique_ptr<gpu::Lane> lane) {
  // A weak reference: the engine's end destroys the reaper first and closes what is left itself.
  return {lane.release(), [weak = weak_from_this()](gpu::Lane* raw) {
            std::unique_ptr<gpu::Lane> owned(raw);
            if (const auto reaper = weak.lock())
              reaper->bury(std::move(owned));
          }};
}

void LaneReaper::bury(std::unique_ptr<gpu::Lane> lane) {
  {
    const std::lock_guard lock(mutex_);
    if (!closing_)
      lanes_.push_back(std::move(lane));
  } // after close() the caller closes it here
  news_.notify_one();
}

void LaneReaper::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    news_.wait(lock, [this] { return closing_ || !lanes_.empty(); });
    if (lanes_.empty())
      return;
    auto closing = std::exchange(lanes_, {});
    lock.unlock();
    closing.clear(); // joins, outside the lock
    lock.lock();
  }
}

} // namespace paceline::actors
