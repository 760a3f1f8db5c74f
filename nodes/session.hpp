// One engine's connection to a node, and the node's work for that engine.
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

/// Reads what an engine wants, finds or loads it, and passes later values to the object that
/// handles them: DraftService for drafts, StageService for passes, Receiver for files; NodeParts
/// says what there is. An invalid value from the peer ends the session, and with it the connection.
class NodeSession {
public:
  using Handle = messages::NodeSessionActor;
  static constexpr const char* name = "node session";

  /// place: one of few, held as long as the session lives.
  NodeSession(Handle::pointer self, std::shared_ptr<NodeParts> node,
              std::shared_ptr<const void> place);
  Handle::behavior_type make_behavior();

private:
  /// The engine's use of the node.
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
  messages::LinkActor link_;             ///< Null until the engine has sent something.
  bool introduced_ = false;              ///< Whether the engine has said what it wants.
  std::optional<Wanted> wanted_;         ///< None: the engine has not asked yet.
  std::unique_ptr<DraftService> drafts_; ///< Null: the engine has no draft here.
  std::unique_ptr<StageService> stage_;  ///< Null: the engine has no stage here.
  messages::ReceiverActor receiver_;     ///< Null: no files are being received.
  base::TimePoint heard_;
  std::shared_ptr<SpanLog> spans_;
};

} // namespace paceline::nodes
