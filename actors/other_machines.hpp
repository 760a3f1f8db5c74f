// The parts of an engine that may be on other machines, and the interface through which it gets
// them. An engine is given that interface when it is opened; it knows neither connections nor what
// crosses them (nodes/).
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

/// Prefix of another machine's device in options: "node://HOST:PORT/DEVICE".
inline constexpr std::string_view node_prefix = "node://";
inline bool is_node_device(std::string_view device) {
  return device.starts_with(node_prefix);
}

/// A draft on another machine, as the supervisor sees it. Threads: any.
class DraftProxy {
public:
  virtual ~DraftProxy() = default;
  /// Spawns the actor that stands for the draft on this machine. target: reads the rows of q.
  virtual messages::DraftActor spawn(caf::local_actor& host,
                                     std::shared_ptr<gpu::Device> target) const = 0;
};

/// A stage of the target on another machine, as the supervisor sees it. Threads: any.
class StageProxy {
public:
  virtual ~StageProxy() = default;
  /// Spawns the actor that stands for the stage on this machine. stage: its number among the
  /// target's. named_by: the version of the handles that name it first.
  virtual messages::TargetActor spawn(caf::local_actor& host, const TargetModelParts& parts,
                                      std::size_t stage, std::uint64_t named_by) const = 0;
  /// Returns why it was lost last, for messages; empty: nothing was noted since the last call.
  virtual std::string take_loss() const = 0;
};

/// A stage that another machine has opened.
struct StageThere {
  std::shared_ptr<const models::Model> model; ///< The model as the machine describes it.
  std::string name;                           ///< Name of the device, for messages.
  std::size_t kv_bytes = 0;                   ///< Bytes of all its pages, there and in its reserve.
  /// Makes the proxy, once the number of the engine's pages is known.
  std::function<std::shared_ptr<const StageProxy>(std::size_t pages)> make_proxy;
};

/// Opens the parts of an engine that its options place on other machines. Threads: one at a time.
class OtherMachines {
public:
  virtual ~OtherMachines() = default;

  /// Checks, before anything is loaded, whether the options say how to reach the machines.
  virtual Result<void> check(const EngineOptions& options) const = 0;
  /// Makes the actor system of this configuration reach them.
  virtual void join(caf::actor_system_config& config, const EngineOptions& options) const = 0;
  /// Returns a device that stands for one of theirs when a target is divided. host: a device of
  /// this machine.
  virtual Result<std::shared_ptr<gpu::Device>>
  open_device(const std::string& name, std::shared_ptr<gpu::Device> host) const = 0;
  /// Opens the draft that EngineOptions::drafters names, on EngineOptions::draft_devices. system:
  /// has joined. Waits for the machine. Errors: a draft that cannot be used there; a machine that
  /// is not there.
  virtual Result<std::unique_ptr<DraftSource>> open_draft(const ModelLoader& loader,
                                                          const LoadedModel& target,
                                                          int max_model_len,
                                                          caf::actor_system& system) const = 0;
  /// Opens the layers that `stage` (models::StageElsewhere) leaves to its device. Waits as long as
  /// loading them takes. Errors: the same as open_draft's.
  virtual Result<StageThere> open_stage(const ModelLoader& loader, const LoadedModel& target,
                                        const models::Model& stage,
                                        caf::actor_system& system) const = 0;
};

} // namespace paceline::actors
