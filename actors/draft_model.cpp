#include "actors/draft_model.hpp"

#include "base/expect.hpp"

#include <mutex>

namespace paceline::actors {

using namespace messages;

/// The board, and the lane that reads it. Lent, it outlives the actor, but not the actor's lane:
/// posts then go nowhere, since a successor may be writing to the same pages.
class DraftModel::Desk final : public DraftInbox {
public:
  Desk(std::shared_ptr<gpu::Step> step, std::shared_ptr<DraftBoard> board,
       std::shared_ptr<gpu::Lane> lane)
      : step_(std::move(step)), board_(std::move(board)), lane_(std::move(lane)) {}

  void post(const Frontiers& frontiers) override {
    for (const Frontier& frontier : frontiers.sequences)
      board_->post(frontier);
    wake_lane();
  }
  void post(const Forget& forgotten) {
    board_->post(forgotten);
    wake_lane();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    lane_ = nullptr;
  }

private:
  void wake_lane() {
    const std::lock_guard lock(mutex_);
    if (lane_ && board_->enlist())
      (void)lane_->submit(step_); // refused: the lane is closing, and so is the draft
  }

  std::shared_ptr<gpu::Step> step_;
  std::shared_ptr<DraftBoard> board_;
  std::mutex mutex_;
  std::shared_ptr<gpu::Lane> lane_; // null once closed
};

DraftModel::DraftModel(Handle::pointer self, DraftModelParts parts,
                       std::shared_ptr<gpu::Device> target)
    : parts_(std::move(parts)) {
  auto board = std::make_shared<DraftBoard>(
      [me = caf::actor_cast<caf::actor_addr>(self)] { messages::fail(me); });
  auto step = parts_.make_step(board, std::move(target));
  auto lane = parts_.reaper->guard(base::value_or_throw(parts_.device->open_lane("draft")));
  desk_ = std::make_shared<Desk>(std::move(step), std::move(board), std::move(lane));
}

DraftModel::~DraftModel() {
  desk_->close();
}

DraftActor::behavior_type DraftModel::make_behavior() {
  return {
      [this](const Frontiers& news) {
        const Handling span(*parts_.telemetry, name, "frontiers");
        desk_->post(news);
      },
      [this](const Forget& forgotten) {
        const Handling span(*parts_.telemetry, name, "forget");
        desk_->post(forgotten);
      },
      [this](const Borrow&) { return Lent{desk_}; },
      [](const Ping&) { return Pong{}; },
  };
}

} // namespace paceline::actors
