#include "actors/target_model.hpp"

#include "base/expect.hpp"
#include "execution/forward_step.hpp"
#include "execution/limits.hpp"
#include "scheduling/contracts.hpp"

#include <fmt/format.h>
#include <stdexcept>

namespace paceline::actors {

using namespace messages;
using namespace scheduling;
using execution::ForwardPass;

std::shared_ptr<execution::RowPool> room_for_rows(const TargetModelParts& parts,
                                                  std::size_t stage) {
  if (stage + 1 == parts.stages())
    return nullptr;
  const TargetStage& own = parts.stage(stage);
  return std::make_shared<execution::RowPool>(execution::RowPool::Config{
      own.device, parts.stage(stage + 1).device, parts.max_rows * own.model->handed_on(),
      execution::limits::passes_per_stage * parts.stages()});
}

TargetModel::TargetModel(Handle::pointer self, TargetModelParts parts, std::size_t stage)
    : self_(self), parts_(std::move(parts)) {
  const TargetStage& own = parts_.stage(stage);
  stage_ = {stage, own.model, own.pool, {}, {}};
  stage_.workspace =
      base::value_or_throw(own.model->make_workspace(parts_.max_rows, parts_.max_logit_rows));
  stage_.left = room_for_rows(parts_, stage);
  const std::string role = parts_.behind.empty() ? name : fmt::format("{} {}", name, stage + 1);
  lane_ = parts_.closer->guard(base::value_or_throw(own.device->open_lane(role)));
}

void TargetModel::begin(const Batch& batch) {
  auto pass = std::make_shared<ForwardPass>(parts_.stages());
  pass->batch = batch;
  enqueue(std::move(pass));
}

void TargetModel::enqueue(std::shared_ptr<ForwardPass> pass) {
  const Batch& batch = pass->batch;
  if (!batches_.is_due(batch.id))
    return; // The batch is a repetition.
  auto before = stage_.number == 0 && batch.after > 0 ? in_flight(batch.after) : nullptr;
  if (stage_.number == 0 && batch.after && !before)
    return; // It was pre-enqueued, but the pass that it would go on from is over, or has not come.
  if (batch.handles > handles_.version) {
    early_.push_back(std::move(pass));
    return;
  }
  if (stage_.number == 0) {
    check_contract(batch);
    if (before) {
      pass->ahead = before->outcome;
      pass->outcome = execution::PassOutcome::behind(*before->outcome, batch);
    }
    find_chunks_before(*pass);
  }
  batches_.note(batch.id);
  recent_.push_back(pass);
  if (recent_.size() > 2 * parts_.stages())
    recent_.pop_front();
  auto step = std::make_shared<execution::ForwardStep>(stage_, pass, parts_.telemetry);
  pass_on(std::move(pass), std::move(step));
}

/// Returns the pass of this batch; null: it is over, or has not come.
std::shared_ptr<ForwardPass> TargetModel::in_flight(std::uint64_t batch) const {
  for (const auto& recent : recent_)
    if (auto pass = recent.lock(); pass && pass->batch.id == batch)
      return pass;
  return nullptr;
}

/// Finds the passes in flight with the prompt chunks before those of this one. A pass that came to
/// this actor and is in flight no more went through all stages, or its sequences begin anew.
void TargetModel::find_chunks_before(ForwardPass& pass) const {
  for (const BatchEntry& entry : pass.batch.entries) {
    const std::uint64_t id = entry.feed.follows;
    if (id == 0)
      continue;
    if (const auto before = in_flight(id))
      pass.follows.push_back(before->entered);
    else if (batches_.is_due(id))
      pass.follows.push_back(nullptr);
  }
}

/// Passes the pass on to the actor that submits the next step. The last stage's step goes with the
/// verification behind it: a pre-enqueued pass waits for the verification of the pass before, and a
/// pass that comes from another stage for its rows.
void TargetModel::pass_on(std::shared_ptr<ForwardPass> pass, std::shared_ptr<gpu::Step> step) {
  const bool last = stage_.number + 1 == parts_.stages();
  if (last)
    pass->workspace = stage_.workspace;
  if (last && (pass->batch.after || stage_.number > 0))
    return tell(self_, handles_.sampler, Logits{std::move(pass), lane_, std::move(step)});
  if (stage_.number > 0)
    pass->handovers[stage_.number - 1].expect(lane_, {std::move(step)});
  else if (!lane_->submit(std::move(step)))
    throw std::runtime_error("the target's lane takes no more work");
  if (last)
    tell(self_, handles_.sampler, Logits{std::move(pass), lane_});
  else if (const TargetActor& next = handles_.stages[stage_.number + 1])
    tell(self_, next, StagePass{std::move(pass)});
}

TargetActor::behavior_type TargetModel::make_behavior() {
  return {
      [this](const Batch& batch) {
        const base::Handling span(*parts_.telemetry, name, "batch");
        begin(batch);
      },
      [this](const StagePass& on) {
        const base::Handling span(*parts_.telemetry, name, "pass");
        enqueue(on.pass);
      },
      [this](const ActorHandles& handles) {
        if (handles.version <= handles_.version)
          return;
        handles_ = handles;
        for (auto& pass : std::exchange(early_, {}))
          enqueue(std::move(pass));
      },
      [](const Ping&) { return Pong{}; },
  };
}

} // namespace paceline::actors
