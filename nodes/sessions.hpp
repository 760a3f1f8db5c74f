// The engines that are connected to a node.
#pragma once

#include "messages/caf.hpp"
#include "nodes/node_parts.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace paceline::nodes {

/// The sessions of all connected engines, at most limits::sessions_max. Threads: any.
class NodeSessions {
public:
  explicit NodeSessions(std::shared_ptr<NodeParts> node) : node_(std::move(node)) {}

  /// Starts a session. Null: there would be too many, or the node is being closed.
  caf::actor welcome(caf::actor_system& system);
  /// Ends all sessions.
  void close();

private:
  std::shared_ptr<NodeParts> node_;
  std::mutex mutex_;
  bool closed_ = false;
  std::vector<caf::actor_addr> sessions_;
};

} // namespace paceline::nodes
