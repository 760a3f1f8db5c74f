// Closing a lane waits for its running piece; an actor must not.
#pragma once

#include "gpu/lane.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace paceline::actors {

/// Takes lanes whose owners are gone and closes them on a thread of its own. The destructor waits
/// until all are closed.
class LaneReaper : public std::enable_shared_from_this<LaneReaper> {
public:
  /// at_once: on the thread that drops them. For virtual time, which has but one thread and whose
  /// lanes never wait.
  explicit LaneReaper(bool at_once = false);
  ~LaneReaper();
  /// Waits until every lane that was handed over is closed, and takes no more. Idempotent.
  void close();
  /// A shared handle that leaves closing to the reaper.
  std::shared_ptr<gpu::Lane> guard(std::unique_ptr<gpu::Lane> lane);

private:
  void bury(std::unique_ptr<gpu::Lane> lane);
  void work();

  std::mutex mutex_;
  std::condition_variable news_;
  std::vector<std::unique_ptr<gpu::Lane>> lanes_;
  bool closing_ = false; ///< What comes now is closed by who brings it.
  std::thread thread_;
};

} // namespace paceline::actors
