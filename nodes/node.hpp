// A machine that offers its devices to engines on other machines.
#pragma once

#include "actors/system/runtime.hpp"
#include "nodes/network.hpp"
#include "nodes/sessions.hpp"

#include <memory>
#include <string>
#include <vector>

namespace paceline::nodes {

struct NodeOptions {
  Endpoint listen{"127.0.0.1", 0}; ///< Port 0: one that is free.
  NodeTls tls;                     ///< Needed for all but loopback.
  std::vector<std::string> devices{"cpu"};
  std::vector<std::string> models{"demo"}; ///< Drafts, each loaded on each device.
  /// Targets whose layers engines may have here; they are loaded when an engine asks.
  std::vector<std::string> targets{"demo"};
  EngineOptions loading;                                ///< Formats, progress and log.
  std::size_t kv_memory_bytes = std::size_t(256) << 20; ///< KV memory of each engine.
  /// Bytes that models sent by engines may take on disk and, at most, in memory; 0: none is taken.
  std::uint64_t accept_models_bytes = 0;
  std::string model_cache; ///< Folder in which they are kept; empty: default_model_cache.
  /// How far the node's clock is ahead in traces; tests set this.
  base::Duration clock_ahead{};
};

/// A node, which drafts for engines that connect and has layers of their targets, as long as it
/// lives. Threads: any.
class Node {
public:
  /// Loads every draft, then listens.
  static Result<std::unique_ptr<Node>> open(const NodeOptions& options);
  ~Node();

  std::uint16_t port() const { return port_; }
  std::vector<std::string> devices() const;

private:
  explicit Node(const NodeOptions& options);
  Result<void> load(const NodeOptions& options);
  Result<void> find_targets(const NodeOptions& options);
  Result<void> open_cache(const NodeOptions& options);
  Result<void> listen(const NodeOptions& options);

  std::unique_ptr<actors::Runtime> runtime_;
  std::shared_ptr<execution::LaneCloser> closer_;
  std::shared_ptr<NodeParts> parts_;
  std::shared_ptr<NodeSessions> sessions_;
  caf::actor door_;
  std::uint16_t port_ = 0;
};

} // namespace paceline::nodes
