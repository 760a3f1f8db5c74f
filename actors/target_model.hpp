// The target model actor: forward passes for batches of sequences.
#pragma once

#include "base/telemetry.hpp"
#include "execution/lane_closer.hpp"
#include "messages/interfaces.hpp"
#include "models/model.hpp"

#include <memory>
#include <optional>

namespace paceline::actors {

struct TargetModelParts {
  std::shared_ptr<const models::Model> model;
  std::shared_ptr<gpu::Device> device;
  std::shared_ptr<gpu::KvPool> pool;
  int max_rows = 0;
  int max_logit_rows = 0;
  std::shared_ptr<execution::LaneCloser> closer;
  std::shared_ptr<base::Telemetry> telemetry;
};

/// Owns the target lane and lends it to the sampler with each batch's logits. The workspace is
/// one: passes and their verifications run on the lane in the order they were enqueued, and the
/// scheduler has one batch under way at a time. A pre-enqueued one stands on the lane behind it.
class TargetModel {
public:
  using Handle = messages::TargetActor;
  static constexpr const char* name = "target";

  /// Throws std::runtime_error when the device gives no lane or no memory.
  TargetModel(Handle::pointer self, TargetModelParts parts);
  Handle::behavior_type make_behavior();

private:
  void enqueue(const scheduling::Batch& batch);

  Handle::pointer self_;
  TargetModelParts parts_;
  std::shared_ptr<models::Workspace> workspace_;
  std::shared_ptr<gpu::Lane> lane_;
  messages::ActorHandles handles_;
  std::uint64_t last_batch_ = 0;
  std::weak_ptr<execution::ForwardPass> last_pass_; ///< Until its steps have retired.
  std::optional<scheduling::Batch> early_;          ///< Waits for handles.
};

} // namespace paceline::actors
