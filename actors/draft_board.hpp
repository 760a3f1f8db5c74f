// What the draft actor tells its lane between two tokens, without a submission for each.
#pragma once

#include "messages/draft.hpp"

#include <mutex>
#include <vector>

namespace paceline::actors {

/// Threads: `post` and `enlist` from the actor, `take` and `rest` from the lane.
class DraftBoard {
public:
  struct News {
    std::vector<messages::Frontier> frontiers;
    std::vector<messages::Forget> forgotten;
    bool empty() const { return frontiers.empty() && forgotten.empty(); }
  };

  void post(messages::Frontier frontier) {
    const std::lock_guard lock(mutex_);
    news_.frontiers.push_back(std::move(frontier));
  }
  void post(messages::Forget forgotten) {
    const std::lock_guard lock(mutex_);
    news_.forgotten.push_back(forgotten);
  }
  News take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(news_, {});
  }

  /// After posting: true when no step is on the lane, which the caller must then submit.
  bool enlist() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(on_lane_, true);
  }
  /// The lane has nothing left to do: true when that is so under the lock, and the step may retire;
  /// false when news came in between.
  bool rest() {
    const std::lock_guard lock(mutex_);
    if (!news_.empty())
      return false;
    on_lane_ = false;
    return true;
  }

private:
  std::mutex mutex_;
  News news_;
  bool on_lane_ = false;
};

} // namespace paceline::actors
