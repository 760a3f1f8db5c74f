// Engine::open, which gives the engine nodes for its drafts and stages.
#include "actors/engine.hpp"

#include "actors/other_machines.hpp"
#include "nodes/network.hpp"
#include "nodes/node_device.hpp"
#include "nodes/node_draft.hpp"
#include "nodes/stage_opening.hpp"

namespace paceline {
namespace {

/// Devices that paceline node offers, reached over sockets of this machine.
class Nodes final : public actors::OtherMachines {
public:
  Result<void> check(const EngineOptions& options) const override {
    return nodes::check_tls(options.node_tls);
  }
  void join(caf::actor_system_config& config, const EngineOptions& options) const override {
    nodes::add_network(config, options.node_tls);
  }
  Result<std::shared_ptr<gpu::Device>>
  open_device(const std::string& name, std::shared_ptr<gpu::Device> host) const override {
    return nodes::parse_node_address("EngineOptions::devices", name)
        .map([&](nodes::NodeAddress&& address) {
          return std::make_shared<nodes::StageDevice>(name, std::move(address), std::move(host));
        });
  }
  Result<std::unique_ptr<actors::DraftSource>>
  open_draft(const actors::ModelLoader& loader, const actors::LoadedModel& target,
             int max_model_len, caf::actor_system& system) const override {
    return nodes::node_draft(loader, target, max_model_len, system);
  }
  Result<actors::StageThere> open_stage(const actors::ModelLoader& loader,
                                        const actors::LoadedModel& target,
                                        const models::Model& stage,
                                        caf::actor_system& system) const override {
    return nodes::open_node_stage(loader, target, stage, system);
  }
};

} // namespace

Result<Engine> Engine::open(EngineOptions options) {
  const Nodes machines;
  auto impl = Impl::open(std::move(options), &machines);
  if (!impl)
    return tl::unexpected(impl.error());
  return Engine(std::move(*impl));
}

} // namespace paceline
