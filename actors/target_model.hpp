// The target model actor, which runs forward passes for batches of sequences, or a stage of them.
#pragma once

#include "base/telemetry.hpp"
#include "execution/lane_closer.hpp"
#include "execution/stage.hpp"
#include "messages/interfaces.hpp"
#include "scheduling/batch_order.hpp"

#include <deque>
#include <memory>
#include <vector>

namespace paceline::actors {

class StageProxy;

/// A model on one device, or the part of it that one of several devices has.
struct TargetStage {
  std::shared_ptr<const models::Model> model;
  std::shared_ptr<gpu::Device> device;
  /// The first stage's pool gives out the pages of all stages; a stage without layers on this
  /// machine has that one.
  std::shared_ptr<gpu::KvPool> pool;
  std::shared_ptr<const StageProxy> remote = nullptr; ///< Null: the stage is on this machine.
};

struct TargetModelParts : TargetStage {
  int max_rows = 0;
  int max_logit_rows = 0;
  std::shared_ptr<execution::LaneCloser> closer;
  std::shared_ptr<base::Telemetry> telemetry;
  std::vector<TargetStage> behind = {}; ///< The stages behind the first.
  int full_length = 0; ///< Sequences of full length for which the caches have room.

  std::size_t stages() const { return 1 + behind.size(); }
  const TargetStage& stage(std::size_t number) const {
    return number == 0 ? *this : behind[number - 1];
  }
  const TargetStage& last_stage() const { return stage(behind.size()); }
};

/// Makes the pool of rows that a stage leaves to the one behind it; null: it is the last.
std::shared_ptr<execution::RowPool> room_for_rows(const TargetModelParts& parts, std::size_t stage);

/// A stage of the target; mostly there is one. It owns its lane; the last stage lends its lane to
/// the sampler with each batch's logits. There is one workspace, because passes and their
/// verifications run on the lane in the order they were enqueued. A pre-enqueued pass stands on the
/// lane behind the verification of the one before.
class TargetModel {
public:
  using Handle = messages::TargetActor;
  static constexpr const char* name = "target";

  /// Throws std::runtime_error if the device gives no lane or no memory.
  TargetModel(Handle::pointer self, TargetModelParts parts, std::size_t stage = 0);
  Handle::behavior_type make_behavior();

private:
  void begin(const scheduling::Batch& batch);
  void enqueue(std::shared_ptr<execution::ForwardPass> pass);
  std::shared_ptr<execution::ForwardPass> in_flight(std::uint64_t batch) const;
  void find_chunks_before(execution::ForwardPass& pass) const;
  void pass_on(std::shared_ptr<execution::ForwardPass> pass, std::shared_ptr<gpu::Step> step);

  Handle::pointer self_;
  TargetModelParts parts_;
  execution::Stage stage_;
  std::shared_ptr<gpu::Lane> lane_;
  messages::ActorHandles handles_;
  scheduling::BatchOrder batches_;
  /// The last passes, until their steps have retired.
  std::deque<std::weak_ptr<execution::ForwardPass>> recent_;
  std::vector<std::shared_ptr<execution::ForwardPass>> early_; ///< They wait for handles.
};

} // namespace paceline::actors
