#include "actors/draft_model.hpp"

#include "actors/limits.hpp"
#include "base/expect.hpp"
#include "sampling/limits.hpp"

#include <stdexcept>

namespace paceline::actors {

using namespace messages;

DraftModel::DraftModel(Handle::pointer, DraftModelParts parts)
    : parts_(std::move(parts)), board_(std::make_shared<DraftBoard>()) {
  const int rows =
      limits::draft_prefill_chunk + parts_.max_num_seqs * (sampling::limits::window_max + 1);
  std::shared_ptr<models::Workspace> workspace =
      base::value_or_throw(parts_.model->make_workspace(rows, parts_.max_num_seqs));
  auto q_rows = std::make_shared<RowPool>(parts_.device, parts_.vocabulary);
  step_ =
      std::make_shared<DraftStep>(parts_.model, parts_.pool, std::move(workspace),
                                  std::move(q_rows), board_, parts_.telemetry, parts_.vocabulary);
  lane_ = parts_.reaper->guard(base::value_or_throw(parts_.device->open_lane("draft")));
}

void DraftModel::wake_lane() {
  add(parts_.telemetry->messages, 1);
  if (board_->enlist() && !lane_->submit(step_))
    throw std::runtime_error("the draft's lane takes no more work");
}

DraftActor::behavior_type DraftModel::make_behavior() {
  return {
      [this](const Frontiers& news) {
        for (const Frontier& frontier : news.sequences)
          board_->post(frontier);
        wake_lane();
      },
      [this](const Forget& forgotten) {
        board_->post(forgotten);
        wake_lane();
      },
      [](const Ping&) { return Pong{}; },
  };
}

} // namespace paceline::actors
