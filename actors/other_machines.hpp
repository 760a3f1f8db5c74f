// What of an engine may be on other machines, and who gets it from there. An engine is given that
// when it is opened; it knows neither connections nor what crosses them (nodes/).
#pragma once

#include "gpu/device.hpp"
#include "messages/interfaces.hpp"
#include "models/model.hpp"
#include "paceline/engine.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace paceline::actors {

class DraftSource;
class ModelLoader;
struct LoadedModel;
struct TargetModelParts;

/// What options call a device of another machine's: "node://HOST:PORT/DEVICE".
inline constexpr std::string_view node_prefix = "node://";
inline bool is_node_device(std::string_view device) {
  return device.starts_with(node_prefix);
}

/// A draft on another machine, as the supervisor has to do with it. Threads: any.
class DraftProxy {
public:
  virtual ~DraftProxy() = default;
  /// Spawns the actor that stands for it here. target: reads the rows of q.
  virtual messages::DraftActor spawn(caf::local_actor& host,
                                     std::shared_ptr<gpu::Device> target) const = 0;
};

/// A stage of the target on another machine, as the supervisor has to do with it. Threads: any.
class StageProxy {
public:
  virtual ~StageProxy() = default;
  /// Spawns the actor that stands for it here. stage: its number among the target's. named_by: the
  /// version of the handles that name it first.
  virtual messages::TargetActor spawn(caf::local_actor& host, const TargetModelParts& parts,
                                      std::size_t stage, std::uint64_t named_by) const = 0;
  /// Why it was lost last, for messages; empty: nobody has said so since this was asked.
  virtual std::string take_loss() const = 0;
};

/// What another machine has given of a target.
struct StageThere {
  std::shared_ptr<const models::Model> model; ///< The model as the machine describes it.
  std::string name;                           ///< Name of the device, for messages.
  std::size_t kv_bytes = 0;                   ///< Bytes of all its pages, there and in its reserve.
  /// Once it is known of how many pages the engine gives out numbers.
  std::function<std::shared_ptr<const StageProxy>(std::size_t pages)> make_proxy;
};

/// Gets an engine what its options name of other machines. Threads: one at a time.
class OtherMachines {
public:
  virtual ~OtherMachines() = default;

  /// Before anything is loaded: whether the options say how to reach them at all.
  virtual Result<void> check(const EngineOptions& options) const = 0;
  /// Has the actor system that is made from `config` reach them.
  virtual void join(caf::actor_system_config& config, const EngineOptions& options) const = 0;
  /// What stands for a device of theirs where a target is divided. host: of this machine.
  virtual Result<std::shared_ptr<gpu::Device>>
  open_device(const std::string& name, std::shared_ptr<gpu::Device> host) const = 0;
  /// The draft that EngineOptions::drafters names, on EngineOptions::draft_device. system: has
  /// joined. Waits. Errors: what cannot be drafted with there; a machine that is not there.
  virtual Result<std::unique_ptr<DraftSource>> open_draft(const ModelLoader& loader,
                                                          const LoadedModel& target,
                                                          int max_model_len,
                                                          caf::actor_system& system) const = 0;
  /// The layers that `stage` (models::StageElsewhere) leaves to its device. Waits, as long as that
  /// needs to load them. Errors: as open_draft's.
  virtual Result<StageThere> open_stage(const ModelLoader& loader, const LoadedModel& target,
                                        const models::Model& stage,
                                        caf::actor_system& system) const = 0;
};

} // namespace paceline::actors
