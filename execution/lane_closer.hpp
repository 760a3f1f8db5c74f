// Closes lanes in place of actors: closing waits for a lane's running piece, and actors must not.
#pragma once

#include "gpu/lane.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

namespace paceline::execution {

/// Takes lanes whose owners are gone and closes them on threads of their own, so that a lane that
/// stands still holds up nobody. In virtual time, which has only one thread, it closes them at
/// once.
class LaneCloser : public std::enable_shared_from_this<LaneCloser> {
public:
  explicit LaneCloser(bool virtual_time);
  /// Waits for every lane.
  ~LaneCloser();
  /// Takes no more lanes and waits, at most `limit` (none: for ever), until those that were handed
  /// over are closed. False: some are not, and what their steps hold and name must be kept.
  bool close(std::optional<std::chrono::nanoseconds> limit = {});
  /// Returns a shared handle that leaves closing to the closer.
  std::shared_ptr<gpu::Lane> guard(std::unique_ptr<gpu::Lane> lane);

private:
  struct State;
  void close_elsewhere(std::unique_ptr<gpu::Lane> lane);

  std::shared_ptr<State> state_; ///< Shared with the threads, which may be left behind.
};

} // namespace paceline::execution
