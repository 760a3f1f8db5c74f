// Connecting to a node: the parts of RemoteDraft and RemoteStage that wait.
#include "nodes/limits.hpp"
#include "nodes/query.hpp"
#include "nodes/remote_draft.hpp"
#include "nodes/survey.hpp"

namespace paceline::nodes {

using namespace messages;

std::string name_of(const NodeAddress& address) {
  return "node://" + address.endpoint.text() + (address.device.empty() ? "" : "/" + address.device);
}

Connector make_connector(const NodeAddress& address, const NodeTls& tls) {
  return [address, tls](caf::actor_system& system, const caf::actor& owner) {
    // The argument is there because CAF 0.17 dereferences a null tuple of arguments for a function
    // without any.
    const auto body = [address, tls](caf::event_based_actor* dialler, const caf::actor& self) {
      const auto socket = dial(address.endpoint, tls, limits::connect_timeout);
      Connected connected;
      if (socket)
        connected.link = open_link(dialler->system(), *socket, tls, address.endpoint.host, self);
      else
        connected.why = socket.error();
      dialler->send(self, std::move(connected));
      dialler->quit();
    };
    system.spawn<caf::detached>(body, owner);
  };
}

RemoteDraftParts remote_draft_parts(const NodeAddress& address, const NodeTls& tls) {
  RemoteDraftParts parts;
  parts.name = name_of(address);
  parts.connect = make_connector(address, tls);
  return parts;
}

Result<Surveyed> survey_node(const NodeAddress& address, const NodeTls& tls) {
  if (auto usable = check_tls(tls); !usable)
    return tl::unexpected(usable.error());
  actors::Runtime runtime(std::nullopt, [&](auto& config) { add_network(config, tls); });
  return query<Surveyed>(runtime.system(), address, tls,
                         [](const auto& node) -> caf::message_handler {
                           node->say(Survey{});
                           return {[node](const Surveyed& all) { node->end(all); }};
                         });
}

} // namespace paceline::nodes
