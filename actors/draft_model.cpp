#include "actors/draft_model.hpp"

#include "base/expect.hpp"

#include <mutex>

namespace paceline::actors {

using namespace messages;
using scheduling::Forget;
using speculation::Frontier;
using speculation::Frontiers;

/// The queue, and the lane that takes from it. It is lent, and outlives the actor, but not the
/// actor's lane: posts then go nowhere, since a successor may be writing to the same pages.
class DraftModel::Inbox final : public speculation::DraftInbox {
public:
  Inbox(std::shared_ptr<gpu::Step> step, std::shared_ptr<execution::DraftQueue> queue,
        std::shared_ptr<gpu::Lane> lane)
      : step_(std::move(step)), queue_(std::move(queue)), lane_(std::move(lane)) {}

  void post(const Frontiers& frontiers) override {
    for (const Frontier& frontier : frontiers.sequences)
      queue_->post(frontier);
    wake_lane();
  }
  void post_forget() {
    queue_->post_forget();
    wake_lane();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    lane_ = nullptr;
  }

private:
  void wake_lane() {
    const std::lock_guard lock(mutex_);
    if (lane_ && queue_->claim_lane())
      (void)lane_->submit(step_); // A refusal means that the lane is closing, and so is the draft.
  }

  std::shared_ptr<gpu::Step> step_;
  std::shared_ptr<execution::DraftQueue> queue_;
  std::mutex mutex_;
  std::shared_ptr<gpu::Lane> lane_; // Null once closed.
};

DraftModel::DraftModel(Handle::pointer self, DraftModelParts parts,
                       std::shared_ptr<gpu::Device> target)
    : parts_(std::move(parts)) {
  auto queue = std::make_shared<execution::DraftQueue>(
      [me = caf::actor_cast<caf::actor_addr>(self)] { messages::fail(me); });
  auto step = parts_.make_step(queue, std::move(target));
  auto lane = parts_.closer->guard(base::value_or_throw(parts_.device->open_lane("draft")));
  inbox_ = std::make_shared<Inbox>(std::move(step), std::move(queue), std::move(lane));
}

DraftModel::~DraftModel() {
  inbox_->close();
}

DraftActor::behavior_type DraftModel::make_behavior() {
  return {
      [this](const Frontiers& news) {
        const base::Handling span(*parts_.telemetry, name, "frontiers");
        inbox_->post(news);
      },
      [this](const Forget&) {
        const base::Handling span(*parts_.telemetry, name, "forget");
        inbox_->post_forget();
      },
      [this](const Borrow&) { return Lent{inbox_}; },
      [](const Ping&) { return Pong{}; },
  };
}

} // namespace paceline::actors
