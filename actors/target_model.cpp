#include "actors/target_model.hpp"

#include "base/expect.hpp"
#include "execution/forward_step.hpp"
#include "scheduling/contracts.hpp"

#include <stdexcept>

namespace paceline::actors {

using namespace messages;
using namespace scheduling;

TargetModel::TargetModel(Handle::pointer self, TargetModelParts parts)
    : self_(self), parts_(std::move(parts)) {
  workspace_ =
      base::value_or_throw(parts_.model->make_workspace(parts_.max_rows, parts_.max_logit_rows));
  lane_ = parts_.closer->guard(base::value_or_throw(parts_.device->open_lane("target")));
}

void TargetModel::enqueue(const Batch& batch) {
  if (batch.id <= last_batch_)
    return; // repeated, or overtaken by a later one
  auto before = batch.after ? last_pass_.lock() : nullptr;
  if (batch.after && (batch.after != last_batch_ || !before))
    return; // pre-enqueued, but what it would go on from is over, or has not come
  if (batch.handles > handles_.version) {
    early_ = batch;
    return;
  }
  check_contract(batch);
  last_batch_ = batch.id;
  auto pass = std::make_shared<execution::ForwardPass>();
  pass->batch = batch;
  pass->workspace = workspace_;
  pass->before = std::move(before);
  last_pass_ = pass;
  auto step =
      std::make_shared<execution::ForwardStep>(parts_.model, parts_.pool, pass, parts_.telemetry);
  if (batch.after) // behind a verification that the sampler enqueues, and may not have yet
    return tell(self_, handles_.sampler, Logits{std::move(pass), lane_, std::move(step)});
  if (!lane_->submit(std::move(step)))
    throw std::runtime_error("the target's lane takes no more work");
  tell(self_, handles_.sampler, Logits{std::move(pass), lane_});
}

TargetActor::behavior_type TargetModel::make_behavior() {
  return {
      [this](const Batch& batch) {
        const base::Handling span(*parts_.telemetry, name, "batch");
        enqueue(batch);
      },
      [this](const ActorHandles& handles) {
        if (handles.version <= handles_.version)
          return;
        handles_ = handles;
        if (const auto batch = std::exchange(early_, std::nullopt))
          enqueue(*batch);
      },
      [](const Ping&) { return Pong{}; },
  };
}

} // namespace paceline::actors
