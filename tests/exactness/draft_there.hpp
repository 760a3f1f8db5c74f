// A draft behind a simulated wire, for tests of what is drawn: nothing goes wrong on the way.
#pragma once

#include "nodes/remote_draft.hpp"
#include "nodes/sessions.hpp"
#include "tests/simulation/simulated_wire.hpp"

#include <memory>

namespace paceline::testing {

/// What the node has, and how far away that is.
struct DraftThere {
  std::shared_ptr<base::Timekeeper> time;
  base::Duration one_way{};
  std::shared_ptr<const models::Model> model;
  std::shared_ptr<gpu::Device> device; ///< It drafts there,
  std::shared_ptr<gpu::Device> host;   ///< and rows of q are written here.
  std::shared_ptr<execution::LaneCloser> closer;
  std::shared_ptr<base::Telemetry> telemetry; ///< Of the engine.
  int page_tokens = 2;
  messages::OpenDraft hello;
  std::size_t q_rows = 0;
};

/// The real session over that model, and the real actor of an engine's that asks it.
/// Threads: the virtual system's.
class NodeOfDraft final : public Way, public std::enable_shared_from_this<NodeOfDraft> {
public:
  explicit NodeOfDraft(DraftThere what);
  /// What stands for the draft in the engine.
  nodes::RemoteDraftParts parts();
  void close() { sessions_.close(); }

  base::TimePoint now() const override { return what_.time->now(); }
  base::TimePoint arrival(LinkEnd) override { return now() + what_.one_way; }
  void after(base::Duration delay, std::function<void()> then) override {
    what_.time->after(delay, std::move(then));
  }
  std::optional<std::size_t> cut_within(std::size_t) override { return std::nullopt; }
  std::size_t comes_apart(std::size_t bytes) override { return bytes; }
  bool is_up(LinkEnd) const override { return true; }

private:
  void connect(caf::actor_system& system, const caf::actor& engine);

  DraftThere what_;
  std::shared_ptr<nodes::NodeParts> node_ = std::make_shared<nodes::NodeParts>();
  nodes::NodeSessions sessions_{node_};
};

} // namespace paceline::testing
