#include "nodes/nodes.hpp"

#include "nodes/network.hpp"
#include "nodes/node_device.hpp"
#include "nodes/node_draft.hpp"
#include "nodes/stage_opening.hpp"

namespace paceline::nodes {

Result<void> Nodes::check(const EngineOptions& options) const {
  return check_tls(options.node_tls);
}

void Nodes::join(caf::actor_system_config& config, const EngineOptions& options) const {
  add_network(config, options.node_tls);
}

Result<std::shared_ptr<gpu::Device>> Nodes::open_device(const std::string& name,
                                                        std::shared_ptr<gpu::Device> host) const {
  return parse_node_address("EngineOptions::devices", name).map([&](NodeAddress&& address) {
    return std::make_shared<StageDevice>(name, std::move(address), std::move(host));
  });
}

Result<std::unique_ptr<actors::DraftSource>> Nodes::open_draft(const actors::ModelLoader& loader,
                                                               const actors::LoadedModel& target,
                                                               int max_model_len,
                                                               caf::actor_system& system) const {
  return node_draft(loader, target, max_model_len, system);
}

Result<actors::StageThere> Nodes::open_stage(const actors::ModelLoader& loader,
                                             const actors::LoadedModel& target,
                                             const models::Model& stage,
                                             caf::actor_system& system) const {
  return open_node_stage(loader, target, stage, system);
}

} // namespace paceline::nodes
