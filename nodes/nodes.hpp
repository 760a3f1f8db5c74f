// Nodes, as an engine is given them when it is opened.
#pragma once

#include "actors/other_machines.hpp"

namespace paceline::nodes {

/// Devices that paceline node offers, reached over sockets of this machine.
class Nodes final : public actors::OtherMachines {
public:
  Result<void> check(const EngineOptions& options) const override;
  void join(caf::actor_system_config& config, const EngineOptions& options) const override;
  Result<std::shared_ptr<gpu::Device>>
  open_device(const std::string& name, std::shared_ptr<gpu::Device> host) const override;
  Result<std::unique_ptr<actors::DraftSource>> open_draft(const actors::ModelLoader& loader,
                                                          const actors::LoadedModel& target,
                                                          int max_model_len,
                                                          caf::actor_system& system) const override;
  Result<actors::StageThere> open_stage(const actors::ModelLoader& loader,
                                        const actors::LoadedModel& target,
                                        const models::Model& stage,
                                        caf::actor_system& system) const override;
};

} // namespace paceline::nodes
