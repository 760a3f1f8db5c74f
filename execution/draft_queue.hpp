// The news that the draft actor gives its lane between two tokens, without a submission for each.
#pragma once

#include "scheduling/contracts.hpp"
#include "speculation/frontier.hpp"

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace paceline::execution {

/// Frontiers on their way to the draft's lane, and whether a step is there to take them. Threads:
/// `post`, `post_forget` and `claim_lane` from anybody who posts; `take`, `quiet`, `leave_lane` and
/// `fail` from the lane.
class DraftQueue {
public:
  struct News {
    std::vector<speculation::Frontier> frontiers;
    bool forget = false; ///< Some cache residencies are over.
    bool empty() const { return frontiers.empty() && !forget; }
  };

  /// failed: called by `fail`; it must not block.
  explicit DraftQueue(std::function<void()> failed = {}) : failed_(std::move(failed)) {}

  void post(speculation::Frontier frontier) {
    const std::lock_guard lock(mutex_);
    news_.frontiers.push_back(std::move(frontier));
  }
  void post_forget() {
    const std::lock_guard lock(mutex_);
    news_.forget = true;
  }
  /// Takes all news. Throws std::logic_error if a frontier breaks its contract, whoever posted it.
  News take() {
    News news;
    {
      const std::lock_guard lock(mutex_);
      news = std::exchange(news_, {});
    }
    scheduling::check_contract(news.frontiers);
    return news;
  }

  /// True if nothing was posted since `take`.
  bool quiet() const {
    const std::lock_guard lock(mutex_);
    return news_.empty();
  }

  /// Is called after posting. True: no step is on the lane, and the caller must submit it.
  bool claim_lane() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(on_lane_, true);
  }
  /// Is called when the lane has nothing left to do. True: there is no news, and the step may
  /// retire; false: news came in between.
  bool leave_lane() {
    const std::lock_guard lock(mutex_);
    if (!news_.empty())
      return false;
    on_lane_ = false;
    return true;
  }

  /// Says that the step was abandoned and what it knew is lost: the draft has to be started anew.
  void fail() const {
    if (failed_)
      failed_();
  }

private:
  std::function<void()> failed_;
  mutable std::mutex mutex_;
  News news_;
  bool on_lane_ = false;
};

} // namespace paceline::execution
