#include "tests/exactness/draft_there.hpp"

#include <utility>

namespace paceline::testing {
namespace {

constexpr std::size_t kv_memory_bytes = std::size_t(1) << 20;
constexpr const char* identity = "the draft";

} // namespace

NodeOfDraft::NodeOfDraft(DraftThere what) : what_(std::move(what)) {
  node_->host = what_.device;
  node_->closer = what_.closer;
  node_->telemetry = std::make_shared<base::Telemetry>();
  node_->telemetry->time = node_->time = what_.time;
  node_->kv_memory_bytes = kv_memory_bytes;
  node_->page_tokens = what_.page_tokens;
  node_->devices.push_back({"sim", what_.device});
  nodes::NodeParts::Offer offer;
  offer.model.device = what_.device;
  offer.model.model = what_.model;
  offer.info.device = "sim";
  offer.info.max_model_len = what_.hello.max_model_len;
  offer.identity = identity;
  node_->offers.push_back(std::make_shared<const nodes::NodeParts::Offer>(std::move(offer)));
}

nodes::RemoteDraftParts NodeOfDraft::parts() {
  nodes::RemoteDraftParts parts;
  parts.name = "node://simulated";
  parts.connect = [node = shared_from_this()](caf::actor_system& system, const caf::actor& self) {
    node->connect(system, self);
  };
  parts.hello = what_.hello;
  parts.hello.model = "draft";
  parts.hello.identity = identity;
  parts.heartbeat = FaultOptions().heartbeat;
  parts.host = what_.host;
  parts.q_rows = what_.q_rows;
  parts.telemetry = what_.telemetry;
  return parts;
}

void NodeOfDraft::connect(caf::actor_system& system, const caf::actor& engine) {
  const auto wire = std::make_shared<SimulatedWire>(shared_from_this(), [] {});
  wire->spawn_link(system, LinkEnd::node, sessions_.welcome(system));
  caf::anon_send(engine,
                 messages::Connected{wire->spawn_link(system, LinkEnd::engine, engine), {}});
}

} // namespace paceline::testing
