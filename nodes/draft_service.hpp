// The part of a node that drafts for an engine.
#pragma once

#include "messages/interfaces.hpp"
#include "nodes/node_parts.hpp"
#include "nodes/served_sequence.hpp"
#include "nodes/span_log.hpp"

#include <atomic>
#include <map>
#include <memory>

namespace paceline::nodes {

/// Takes a scheduler's place for the draft model of a node: keeps the engine's sequences, gives
/// them pages of a pool of its own, and sends the tokens of their chains. The draft's actor dies
/// with it. Invalid values from an engine throw std::invalid_argument. Threads: its session's.
class DraftService {
public:
  using Session = messages::NodeSessionActor::pointer;

  /// Checks the request of an engine that is not trusted. Errors: sizes that nobody drafts for.
  static Result<void> check(const messages::OpenDraft& wanted);
  /// Opens the service, and tells the link DraftOpened once its draft takes work. session: dies
  /// with the draft, and is told WindowsReady (`collect`). spans: gets the spans of the lane.
  /// Errors: no memory.
  static Result<std::unique_ptr<DraftService>>
  open(Session session, const std::shared_ptr<NodeParts>& node, const messages::OpenDraft& wanted,
       NodeParts::OfferRef offer, messages::LinkActor link, std::shared_ptr<SpanLog> spans);
  ~DraftService();
  DraftService(const DraftService&) = delete;
  DraftService& operator=(const DraftService&) = delete;

  void take(const messages::DraftWork& work);
  /// Sends the new tokens of the chains.
  void collect();

private:
  DraftService(Session session, NodeParts::OfferRef offer, messages::LinkActor link);
  Result<void> start(const NodeParts& node, const messages::OpenDraft& wanted,
                     std::shared_ptr<SpanLog> spans);
  void spawn_draft(const NodeParts& node, const messages::OpenDraft& wanted,
                   std::shared_ptr<SpanLog> spans);
  ServedSequence& begin(const messages::DraftFrom& from);
  ServedSequence& begun(const messages::DraftFrom& from);

  Session session_;
  NodeParts::OfferRef offer_;
  messages::LinkActor link_;
  std::size_t sequences_max_ = 0;
  messages::DraftActor draft_;
  std::shared_ptr<speculation::DraftInbox> inbox_; ///< Null until the draft takes work.
  std::shared_ptr<const ServedSequence::Common> common_;
  std::map<speculation::SequenceId, ServedSequence> sequences_;
  /// Whether a message that windows are there is under way; lanes set it.
  std::shared_ptr<std::atomic<bool>> told_ = std::make_shared<std::atomic<bool>>(false);
};

} // namespace paceline::nodes
