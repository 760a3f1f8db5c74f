// A whole engine on a virtual clock, and on devices on which things go wrong.
#pragma once

#include "actors/supervisor.hpp"
#include "actors/system/timekeeper.hpp"
#include "actors/system/virtual_time.hpp"
#include "base/admission.hpp"
#include "nodes/remote_draft.hpp"
#include "nodes/remote_stage.hpp"
#include "tests/simulation/faulty_device.hpp"
#include "tests/simulation/workload.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::testing {

/// What all engines of a run have in common.
class Ground {
public:
  Ground(std::uint64_t seed, const FaultPlan& plan);
  /// Nothing may refer to the system's actors any more.
  ~Ground();
  Ground(const Ground&) = delete;
  Ground& operator=(const Ground&) = delete;

  /// Lets time pass, with whatever happens meanwhile.
  void rest(base::Duration length);

  const std::shared_ptr<FaultSource> faults;
  const std::shared_ptr<execution::LaneCloser> closer =
      std::make_shared<execution::LaneCloser>(true);
  actors::VirtualSystem system;
  const std::shared_ptr<actors::ActorTimekeeper> time;
};

class SimulatedEngine {
public:
  struct Options {
    std::uint64_t seed = 0; ///< Of its devices' times.
    /// Drafts in the model's place; empty: that does.
    std::function<std::shared_ptr<Drafter>()> drafter{};
    std::function<void(LaneNews)> news{}; ///< May be empty.
    /// Makes the parts of a draft on a node, given where rows of q are written; empty: it is here.
    std::function<nodes::RemoteDraftParts(std::shared_ptr<gpu::Device>)> remote{};
    /// Makes those of a stage of the target, by its number; null where it is here. Empty: all are.
    std::function<std::shared_ptr<const nodes::RemoteStageParts>(int)> stage{};
  };
  /// ground, workload: must outlive it; of the workload only settings are taken.
  SimulatedEngine(Ground& ground, const Workload& workload, Options options);

  /// Spawns its actors. started: told once they are there, or that they died before.
  void start(std::function<void(bool)> started);
  /// A job's request, and what its caller does. Once it has started.
  void submit(const Job& job, std::shared_ptr<base::EventSink> sink);
  void cancel(std::uint64_t id);
  /// Asks its actors to end.
  void end();

  const messages::SupervisorActor& supervisor() const { return supervisor_; }
  const messages::FacadeActor& facade() const { return facade_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::shared_ptr<base::Telemetry>& telemetry() const { return telemetry_; }

  /// Whether it has not ended by itself. While its actors are left alone.
  bool lives() { return handles_now().has_value(); }
  /// Adds what somebody still has of an engine that has nothing left to do.
  void check_ledger(std::vector<std::string>& failures);
  /// The same behind its end.
  void check_pools(std::vector<std::string>& failures) const;

private:
  using Pools = std::map<std::string, std::shared_ptr<gpu::KvPool>>;

  std::shared_ptr<gpu::Device> device(base::Duration step, std::uint64_t salt, bool mortal = false,
                                      bool steady = false, int shards = 1);
  std::shared_ptr<gpu::KvPool> pool(const models::Model& model, const std::string& name,
                                    int slots_per_token = 1);
  int logit_rows() const;
  actors::EngineParts make_parts();
  void add_settings(actors::EngineParts& parts) const;
  void add_target(actors::EngineParts& parts);
  std::shared_ptr<const nodes::RemoteStageParts> elsewhere(std::size_t stage) const;
  std::shared_ptr<gpu::Device> stage_device(std::size_t stage);
  actors::TargetStage stage_behind(std::shared_ptr<const models::Model> model, std::size_t number,
                                   const std::shared_ptr<gpu::KvPool>& first);
  actors::TargetModelParts target_parts(const std::shared_ptr<const models::Model>& model,
                                        const std::shared_ptr<gpu::Device>& on,
                                        const std::string& name);
  void add_draft(actors::EngineParts& parts);
  actors::DraftModelParts drafter_parts(std::shared_ptr<gpu::Device> device);
  actors::DraftModelParts remote_parts();
  std::optional<messages::ActorHandles> handles_now();
  void ask_handles(std::function<void(const std::optional<messages::ActorHandles>&)> answered);

  Ground& ground_;
  const Workload& workload_;
  Options options_;
  std::shared_ptr<base::Telemetry> telemetry_ = std::make_shared<base::Telemetry>();
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  Pools pools_;
  base::Admission admission_;
  messages::SupervisorActor supervisor_;
  messages::FacadeActor facade_;
};

} // namespace paceline::testing
