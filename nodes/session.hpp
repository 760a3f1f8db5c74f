// One engine's connection to a node, and what the node does for it.
#pragma once

#include "messages/interfaces.hpp"
#include "nodes/draft_service.hpp"
#include "nodes/node_parts.hpp"
#include "nodes/span_log.hpp"
#include "nodes/stage_service.hpp"

#include <memory>
#include <optional>
#include <variant>

namespace paceline::nodes {

/// Hears what an engine wants, finds or loads it, and hands what comes then to who does it:
/// DraftService for drafts, StageService for passes, Receiver for files; NodeParts says what there
/// is. Whatever a peer says that cannot be ends the session, and with it the connection.
class NodeSession {
public:
  using Handle = messages::NodeSessionActor;
  static constexpr const char* name = "node session";

  /// place: one of few, held as long as it lives.
  NodeSession(Handle::pointer self, std::shared_ptr<NodeParts> node,
              std::shared_ptr<const void> place);
  Handle::behavior_type make_behavior();

private:
  /// What the engine uses the node for.
  using Wanted = std::variant<messages::OpenDraft, messages::OpenStage>;

  void hear();
  void want(Wanted what);
  void open();
  void load(const NodeParts::Wanted& weights);
  void serve(const messages::OpenDraft& wanted, const NodeParts::OfferRef& offer);
  void serve(const messages::OpenStage& wanted, const NodeParts::OfferRef& offer);
  void refuse(const Error& why, bool takes_files = false);
  void receive(const messages::SendModel& what);
  void take(const messages::ModelPart& part);
  void look_after();
  void read_clock();
  void send_spans();

  Handle::pointer self_;
  std::shared_ptr<NodeParts> node_;
  std::shared_ptr<const void> place_;
  messages::LinkActor link_;             ///< Null until the engine has said something,
  bool introduced_ = false;              ///< and what it wants.
  std::optional<Wanted> wanted_;         ///< None: it has not asked yet.
  std::unique_ptr<DraftService> drafts_; ///< Null: it has none,
  std::unique_ptr<StageService> stage_;  ///< and so here.
  messages::ReceiverActor receiver_;     ///< Null: no files come.
  base::TimePoint heard_;
  std::shared_ptr<SpanLog> spans_;
};

} // namespace paceline::nodes
