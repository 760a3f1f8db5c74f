#include "actors/draft_model.hpp"

#include "base/expect.hpp"

#include <stdexcept>

namespace paceline::actors {

using namespace messages;

DraftModel::DraftModel(Handle::pointer, DraftModelParts parts)
    : parts_(std::move(parts)), board_(std::make_shared<DraftBoard>()),
      step_(parts_.make_step(board_)),
      lane_(parts_.reaper->guard(base::value_or_throw(parts_.device->open_lane("draft")))) {}

void DraftModel::wake_lane() {
  if (board_->enlist() && !lane_->submit(step_))
    throw std::runtime_error("the draft's lane takes no more work");
}

DraftActor::behavior_type DraftModel::make_behavior() {
  return {
      [this](const Frontiers& news) {
        const Handling span(*parts_.telemetry, name, "frontiers");
        for (const Frontier& frontier : news.sequences)
          board_->post(frontier);
        wake_lane();
      },
      [this](const Forget& forgotten) {
        const Handling span(*parts_.telemetry, name, "forget");
        board_->post(forgotten);
        wake_lane();
      },
      [](const Ping&) { return Pong{}; },
  };
}

} // namespace paceline::actors
